#include "balance/partition/item_exchange.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "balance/checks.hpp"
#include "balance/groups/exchanges.hpp"
#include "balance/quality.hpp"
#include "base/list_checks.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// Returns the items of `group` after it gives away `out` and receives `in` from `other`.
std::vector<Item> items_after_exchange(const ItemGroup& group, const ItemSubset& out, const ItemGroup& other,
                                       const ItemSubset& in) {
  std::vector<Item> items;
  items.reserve(group.items.size() + in.count);
  const std::span<const std::uint32_t> left_out = out.positions();
  for (std::size_t i = 0; i < group.items.size(); ++i) {
    if (std::ranges::find(left_out, i) == left_out.end()) items.push_back(group.items[i].item);
  }
  for (const std::uint32_t i : in.positions()) items.push_back(other.items[i].item);
  return items;
}

/// The best exchange offered so far that obeys the rules.
class BestExchange {
 public:
  BestExchange(const ItemGroup& giver, const ItemGroup& receiver, WantedShift wanted,
               const ExchangeRules& rules, std::int64_t& budget)
      : giver_(giver),
        receiver_(receiver),
        wanted_(wanted),
        rules_(rules),
        budget_(budget),
        distance_(wanted.twice_ideal) {}

  [[nodiscard]] const std::optional<Exchange>& best() const { return best_; }
  [[nodiscard]] bool is_perfect() const { return distance_ <= wanted_.twice_ideal % 2; }
  /// Returns the ideal cost of the items that are taken in return for items of the cost `given`.
  [[nodiscard]] Cost ideal_taken_cost(Cost given) const { return given - wanted_.twice_ideal / 2; }

  /// Keeps the exchange if it obeys the rules and is better than the best one so far. Returns false if it is
  /// better but breaks the rules; an exchange that is farther from the ideal may then still be allowed.
  bool offer(const ItemSubset& given, const ItemSubset& taken) {
    const Cost shift = given.cost - taken.cost;
    if (shift <= 0 || shift > wanted_.most) return true;
    const Cost distance =
        shift > wanted_.twice_ideal / 2 ? 2 * shift - wanted_.twice_ideal : wanted_.twice_ideal - 2 * shift;
    if (distance >= distance_) return true;
    if (!keeps_limits(given, taken)) return false;
    distance_ = distance;
    best_ = Exchange{given, taken};
    return true;
  }

  /// Offers exchanges of `given` for the sets around position `ideal` of a list of `size` sets, which is in
  /// ascending order of cost. Offers several sets, since the limits may forbid the best ones.
  template <typename SetAt>
  void offer_around(const ItemSubset& given, std::size_t ideal, std::size_t size, const SetAt& set_at) {
    constexpr std::size_t reach = 8;
    const std::size_t above = std::min(ideal + reach, size);
    for (std::size_t taken = ideal; taken < above; ++taken) {
      if (offer(given, set_at(taken))) break;
    }
    const std::size_t below = ideal - std::min(ideal, reach);
    for (std::size_t taken = ideal; taken-- > below;) {
      if (offer(given, set_at(taken))) break;
    }
  }

 private:
  [[nodiscard]] bool keeps_limits(const ItemSubset& given, const ItemSubset& taken) {
    std::int64_t size = 0;
    std::int64_t count = 0;
    for (const std::uint32_t i : given.positions()) {
      size += rules_.size_of(giver_.items[i].item);
      count += rules_.count_of(giver_.items[i].item);
    }
    for (const std::uint32_t i : taken.positions()) {
      size -= rules_.size_of(receiver_.items[i].item);
      count -= rules_.count_of(receiver_.items[i].item);
    }
    const BinLimits& limits = rules_.limits;
    if (receiver_.size + size <= limits.max_size && giver_.size - size <= limits.max_size &&
        receiver_.count + count <= limits.max_items && giver_.count - count <= limits.max_items)
      return rules_.bin_cost == 0 || stays_below_giver_total(given.cost - taken.cost, 1, 1);
    if (rules_.bins == 1 || budget_ <= 0) return false;
    const Cost shift = given.cost - taken.cost;
    const auto are_allowed = [&](std::int64_t giver_bins, std::int64_t receiver_bins) {
      return giver_bins <= rules_.bins && receiver_bins <= rules_.bins &&
             stays_below_giver_total(shift, giver_bins, receiver_bins);
    };
    const std::int64_t least_giver_bins = min_bins(giver_.size - size, giver_.count - count);
    const std::int64_t least_receiver_bins = min_bins(receiver_.size + size, receiver_.count + count);
    if (!are_allowed(least_giver_bins, least_receiver_bins)) return false;
    const std::int64_t giver_bins = count_packed_bins(items_after_exchange(giver_, given, receiver_, taken));
    return are_allowed(giver_bins, least_receiver_bins) &&
           are_allowed(giver_bins, count_packed_bins(items_after_exchange(receiver_, taken, giver_, given)));
  }

  /// Returns a lower bound on the number of bins of a group with this size and count.
  [[nodiscard]] std::int64_t min_bins(std::int64_t size, std::int64_t count) const {
    return std::max(balance_checks::ceil_div(size, std::max<std::int64_t>(rules_.limits.max_size, 1)),
                    balance_checks::ceil_div(count, rules_.limits.max_items));
  }

  [[nodiscard]] std::int64_t count_packed_bins(const std::vector<Item>& items) {
    constexpr std::int64_t packing = 2;  // time for packing one item, in units of examining one item
    budget_ -= packing * std::ssize(items);
    return count_bins(items, rules_);
  }

  /// Returns whether an exchange that shifts this cost, and leaves the groups with these numbers of bins,
  /// makes the totals of both groups lower than the giver's current total.
  [[nodiscard]] bool stays_below_giver_total(Cost shift, std::int64_t giver_bins,
                                             std::int64_t receiver_bins) const {
    const Cost total = giver_.total(rules_);
    return giver_.cost - shift + rules_.bin_cost * giver_bins < total &&
           receiver_.cost + shift + rules_.bin_cost * receiver_bins < total;
  }

  const ItemGroup& giver_;
  const ItemGroup& receiver_;
  WantedShift wanted_;
  const ExchangeRules& rules_;
  std::int64_t& budget_;
  Cost distance_;  ///< twice the difference between the cost that best_ moves and the ideal (WantedShift)
  std::optional<Exchange> best_;
};

ItemSubset single_item_subset(const ItemGroup& group, std::size_t at) {
  return {group.items[at].cost, 1, {static_cast<std::uint32_t>(at)}};
}

/// Adds the supersets of `set` that contain further items at positions >= `next`.
void add_supersets(const ItemGroup& group, const ItemSubset& set, std::size_t next, std::size_t most,
                   std::vector<ItemSubset>& sets) {
  if (set.count == most) return;
  for (std::size_t i = next; i < group.items.size(); ++i) {
    ItemSubset larger = set;
    larger.cost += group.items[i].cost;
    larger.at[larger.count++] = static_cast<std::uint32_t>(i);
    sets.push_back(larger);
    add_supersets(group, larger, i + 1, most, sets);
  }
}

void require_equal_counts(const Partition& partition) {
  const std::int64_t fewest = partition.num_items() / partition.size();
  const std::int64_t most = fewest + (partition.num_items() % partition.size() != 0 ? 1 : 0);
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    const auto count = static_cast<std::int64_t>(partition[g].size());
    if (count < fewest || count > most) {
      throw InputError("start", "group " + std::to_string(g) + " has " + format_plain_count(count, "item") +
                                    ", but with equal counts it must have " + std::to_string(fewest) +
                                    (most > fewest ? " or " + std::to_string(most) : std::string()));
    }
  }
}

}  // namespace

CostedItem ItemGroup::remove_item(std::size_t position, const ExchangeRules& rules) {
  const auto place = items.begin() + static_cast<std::ptrdiff_t>(position);
  const CostedItem entry = *place;
  items.erase(place);
  cost -= entry.cost;
  size -= rules.size_of(entry.item);
  count -= rules.count_of(entry.item);
  return entry;
}

void ItemGroup::insert_sorted(const CostedItem& entry, const ExchangeRules& rules) {
  append_unsorted(entry, rules);
  std::ranges::rotate(std::ranges::upper_bound(items.begin(), items.end() - 1, entry), items.end() - 1,
                      items.end());
}

void ItemGroup::append_unsorted(const CostedItem& entry, const ExchangeRules& rules) {
  items.push_back(entry);
  cost += entry.cost;
  size += rules.size_of(entry.item);
  count += rules.count_of(entry.item);
}

void Exchange::apply(ItemGroup& giver, ItemGroup& receiver, const ExchangeRules& rules) const {
  std::vector<CostedItem> out;
  std::vector<CostedItem> back;
  for (std::uint32_t i = given.count; i-- > 0;) out.push_back(giver.remove_item(given.at[i], rules));
  for (std::uint32_t i = taken.count; i-- > 0;) back.push_back(receiver.remove_item(taken.at[i], rules));
  for (const CostedItem& entry : out) receiver.insert_sorted(entry, rules);
  for (const CostedItem& entry : back) giver.insert_sorted(entry, rules);
}

std::optional<Exchange> find_exchange(const ItemGroup& giver, const ItemGroup& receiver, WantedShift wanted,
                                      const ExchangeRules& rules, std::int64_t& budget) {
  constexpr std::int64_t overhead = 16;  // constant time of a search, in units of examining one item
  budget -= std::ssize(giver.items) + std::ssize(receiver.items) + overhead;
  BestExchange best(giver, receiver, wanted, rules, budget);
  const bool may_move = !rules.keep_counts && !receiver.is_full(rules);
  // The cost of the ideal item to take increases with the cost of the given item, so one pass over each list
  // is enough.
  std::size_t ideal = 0;
  for (std::size_t i = 0; i < giver.items.size() && !best.is_perfect(); ++i) {
    const ItemSubset given = single_item_subset(giver, i);
    const Cost back = best.ideal_taken_cost(given.cost);
    while (ideal < receiver.items.size() && receiver.items[ideal].cost < back) ++ideal;
    if (may_move) best.offer(given, {});
    best.offer_around(given, ideal, receiver.items.size(),
                      [&](std::size_t at) { return single_item_subset(receiver, at); });
  }
  return best.best();
}

std::vector<ItemSubset> small_sets(const ItemGroup& group) {
  constexpr std::size_t max_sets = 512;
  const std::size_t n = group.items.size();
  const std::size_t pairs = n * (n - std::min<std::size_t>(n, 1)) / 2;
  const std::size_t triples = n < 3 ? 0 : pairs * (n - 2) / 3;
  const std::size_t most = 1 + n + pairs + triples <= max_sets ? 3 : 1 + n + pairs <= max_sets ? 2 : 1;
  std::vector<ItemSubset> sets{{}};
  sets.reserve(max_sets);
  add_supersets(group, {}, 0, most, sets);
  std::ranges::stable_sort(sets, {}, &ItemSubset::cost);
  return sets;
}

std::optional<Exchange> find_set_exchange(const ItemGroup& giver, std::span<const ItemSubset> giver_sets,
                                          const ItemGroup& receiver,
                                          std::span<const ItemSubset> receiver_sets, WantedShift wanted,
                                          const ExchangeRules& rules, std::int64_t& budget) {
  budget -= std::ssize(giver_sets) + std::ssize(receiver_sets);
  BestExchange best(giver, receiver, wanted, rules, budget);
  const auto search = [&](const auto& is_given, const auto& takes) {
    std::vector<const ItemSubset*> back;
    for (const ItemSubset& set : receiver_sets)
      if (takes(set)) back.push_back(&set);
    std::size_t ideal = 0;
    for (const ItemSubset& given : giver_sets) {
      if (best.is_perfect()) return;
      if (!is_given(given)) continue;
      while (ideal < back.size() && back[ideal]->cost < best.ideal_taken_cost(given.cost)) ++ideal;
      best.offer_around(given, ideal, back.size(),
                        [&](std::size_t at) -> const ItemSubset& { return *back[at]; });
    }
  };
  if (!rules.keep_counts) {
    search([](const ItemSubset& set) { return set.count > 0; }, [](const ItemSubset&) { return true; });
    return best.best();
  }
  for (std::uint32_t count = 1; count <= ItemSubset::most; ++count) {
    const auto has_count = [count](const ItemSubset& set) { return set.count == count; };
    search(has_count, has_count);
  }
  return best.best();
}

std::int64_t count_bins(std::span<const Item> items, const ExchangeRules& rules) {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> counts;
  BinLimits all{0, 0};
  for (const Item item : items) {
    all.max_size += sizes.emplace_back(rules.size_of(item));
    all.max_items += counts.emplace_back(rules.count_of(item));
  }
  if (all.max_size <= rules.limits.max_size && all.max_items <= rules.limits.max_items) return 1;
  return first_fit_decreasing({sizes, counts}, rules.limits).size();
}

Partition refine(std::span<const Cost> costs, Partition start, GroupSize group_size) {
  if (start.num_items() != static_cast<std::int64_t>(costs.size())) {
    throw InputError("start", "has " + format_plain_count(start.num_items(), "item") + " for " +
                                  format_plain_count(std::ssize(costs), "cost") +
                                  "; the two numbers must be equal");
  }
  EVENKEEL_PRECONDITION(thorough, is_permutation(start.items(), start.num_items()), start.num_items());
  const Cost bound = max_sum_lower_bound(costs, start.size(), group_size);
  if (group_size == GroupSize::equal) require_equal_counts(start);
  GroupExchanges groups(start, costs, {.keep_counts = group_size == GroupSize::equal});
  if (!groups.even_out_by_sets(bound)) return start;
  return groups.result();
}

}  // namespace evenkeel
