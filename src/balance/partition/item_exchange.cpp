#include "balance/partition/item_exchange.hpp"

#include <algorithm>
#include <string>

#include "balance/groups/exchanges.hpp"
#include "balance/quality.hpp"
#include "base/list_checks.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

class ExchangeSearch {
 public:
  ExchangeSearch(const ItemGroup& giver, const ItemGroup& receiver, WantedShift wanted,
                 const ExchangeRules& rules)
      : giver_(giver),
        receiver_(receiver),
        wanted_(wanted),
        rules_(rules),
        distance_(wanted.twice_ideal),
        may_move_(!rules.keep_counts && !receiver.is_full(rules)) {}

  std::optional<Exchange> run() {
    // What a given item should be swapped for rises with it, so that one walk over each list finds it.
    std::size_t ideal = 0;
    for (std::size_t given = 0; given < giver_.items.size() && !is_perfect(); ++given) {
      const Cost best_back = giver_.items[given].cost - wanted_.twice_ideal / 2;
      while (ideal < receiver_.items.size() && receiver_.items[ideal].cost < best_back) ++ideal;
      if (may_move_) offer(given, std::nullopt);
      offer_swaps(given, ideal);
    }
    return best_;
  }

 private:
  [[nodiscard]] bool is_perfect() const { return distance_ <= wanted_.twice_ideal % 2; }

  /// Limits may forbid the best few.
  void offer_swaps(std::size_t given, std::size_t ideal) {
    constexpr std::size_t reach = 8;
    const std::size_t above = std::min(ideal + reach, receiver_.items.size());
    for (std::size_t taken = ideal; taken < above; ++taken) {
      if (offer(given, taken)) break;
    }
    const std::size_t below = ideal - std::min(ideal, reach);
    for (std::size_t taken = ideal; taken-- > below;) {
      if (offer(given, taken)) break;
    }
  }

  /// False when only the limits forbid the exchange: one a little farther from the ideal may do.
  bool offer(std::size_t given, std::optional<std::size_t> taken) {
    const Cost shift = giver_.items[given].cost - (taken ? receiver_.items[*taken].cost : 0);
    if (shift <= 0 || shift > wanted_.most) return true;
    const Cost distance =
        shift > wanted_.twice_ideal / 2 ? 2 * shift - wanted_.twice_ideal : wanted_.twice_ideal - 2 * shift;
    if (distance >= distance_) return true;
    if (!keeps_limits(given, taken)) return false;
    distance_ = distance;
    best_ = Exchange{given, taken};
    return true;
  }

  [[nodiscard]] bool keeps_limits(std::size_t given, std::optional<std::size_t> taken) const {
    const Item out = giver_.items[given].item;
    std::int64_t size = rules_.size_of(out);
    std::int64_t count = rules_.count_of(out);
    if (taken) {
      const Item back = receiver_.items[*taken].item;
      size -= rules_.size_of(back);
      count -= rules_.count_of(back);
    }
    const BinLimits& limits = rules_.limits;
    return receiver_.size + size <= limits.max_size && giver_.size - size <= limits.max_size &&
           receiver_.count + count <= limits.max_items && giver_.count - count <= limits.max_items;
  }

  const ItemGroup& giver_;
  const ItemGroup& receiver_;
  WantedShift wanted_;
  const ExchangeRules& rules_;
  Cost distance_;  ///< twice that of the best shift so far from the ideal
  bool may_move_;
  std::optional<Exchange> best_;
};

void require_equal_counts(const Partition& partition) {
  const std::int64_t fewest = partition.num_items() / partition.size();
  const std::int64_t most = fewest + (partition.num_items() % partition.size() != 0 ? 1 : 0);
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    const auto count = static_cast<std::int64_t>(partition[g].size());
    if (count < fewest || count > most) {
      throw InputError("start", "group " + std::to_string(g) + " has " + std::to_string(count) +
                                    " items, and equal counts are " + std::to_string(fewest) + " or " +
                                    std::to_string(most));
    }
  }
}

}  // namespace

CostedItem ItemGroup::take(std::size_t position, const ExchangeRules& rules) {
  const auto place = items.begin() + static_cast<std::ptrdiff_t>(position);
  const CostedItem entry = *place;
  items.erase(place);
  cost -= entry.cost;
  size -= rules.size_of(entry.item);
  count -= rules.count_of(entry.item);
  return entry;
}

void ItemGroup::put(const CostedItem& entry, const ExchangeRules& rules) {
  items.insert(std::ranges::lower_bound(items, entry), entry);
  cost += entry.cost;
  size += rules.size_of(entry.item);
  count += rules.count_of(entry.item);
}

void Exchange::apply(ItemGroup& giver, ItemGroup& receiver, const ExchangeRules& rules) const {
  const CostedItem entry = giver.take(given, rules);
  if (taken) giver.put(receiver.take(*taken, rules), rules);
  receiver.put(entry, rules);
}

std::optional<Exchange> find_exchange(const ItemGroup& giver, const ItemGroup& receiver, WantedShift wanted,
                                      const ExchangeRules& rules) {
  return ExchangeSearch(giver, receiver, wanted, rules).run();
}

Partition refine(std::span<const Cost> costs, Partition start, GroupSize group_size) {
  if (start.num_items() != static_cast<std::int64_t>(costs.size())) {
    throw InputError("start", std::to_string(start.num_items()) + " items for " +
                                  std::to_string(costs.size()) + " costs; there must be as many");
  }
  EVENKEEL_PRECONDITION(thorough, is_permutation(start.items(), start.num_items()), start.num_items());
  const Cost bound = max_sum_lower_bound(costs, start.size(), group_size);
  if (group_size == GroupSize::equal) require_equal_counts(start);
  GroupExchanges groups(start, costs, {.keep_counts = group_size == GroupSize::equal});
  if (!groups.even_out(bound)) return start;
  return groups.result();
}

}  // namespace evenkeel
