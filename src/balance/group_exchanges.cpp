#include "group_exchanges.hpp"

#include <algorithm>

namespace evenkeel {

/// Looks for the exchange after which two groups are nearest to each other.
class GroupExchanges::PairSearch {
 public:
  PairSearch(const GroupExchanges& all, const Group& heavy, const Group& light)
      : all_(all),
        heavy_(heavy),
        light_(light),
        gap_(heavy.cost - light.cost),
        distance_(gap_),
        may_move_(!all.rules_.keep_counts &&
                  static_cast<std::int64_t>(light.items.size()) < all.rules_.limits.max_items) {}

  std::optional<Exchange> run() {
    // What a given item should be swapped for rises with it, so that one walk over each list finds it.
    std::size_t ideal = 0;
    for (std::size_t given = 0; given < heavy_.items.size() && !is_perfect(); ++given) {
      const Cost wanted = heavy_.items[given].cost - gap_ / 2;
      while (ideal < light_.items.size() && light_.items[ideal].cost < wanted) ++ideal;
      if (may_move_) offer(given, std::nullopt);
      offer_swaps(given, ideal);
    }
    return best_;
  }

 private:
  [[nodiscard]] bool is_perfect() const { return distance_ <= gap_ % 2; }

  /// Limits may forbid the best few.
  void offer_swaps(std::size_t given, std::size_t ideal) {
    constexpr std::size_t reach = 8;
    const std::size_t above = std::min(ideal + reach, light_.items.size());
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
    const Cost shift = heavy_.items[given].cost - (taken ? light_.items[*taken].cost : 0);
    const Cost distance = shift > gap_ / 2 ? 2 * shift - gap_ : gap_ - 2 * shift;
    if (distance >= distance_) return true;
    if (!keeps_sizes(given, taken)) return false;
    distance_ = distance;
    best_ = Exchange{given, taken};
    return true;
  }

  [[nodiscard]] bool keeps_sizes(std::size_t given, std::optional<std::size_t> taken) const {
    const std::int64_t growth =
        all_.size_of(heavy_.items[given]) - (taken ? all_.size_of(light_.items[*taken]) : 0);
    const std::int64_t limit = all_.rules_.limits.max_size;
    return light_.size + growth <= limit && heavy_.size - growth <= limit;
  }

  const GroupExchanges& all_;
  const Group& heavy_;
  const Group& light_;
  Cost gap_;
  Cost distance_;  ///< between the two groups after the best exchange so far
  bool may_move_;
  std::optional<Exchange> best_;
};

GroupExchanges::GroupExchanges(const Partition& start, std::span<const Cost> costs,
                               const ExchangeRules& rules)
    : start_(start), costs_(costs), rules_(rules), groups_(static_cast<std::size_t>(start.size())) {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    for (const Item item : start[static_cast<std::int64_t>(g)]) {
      const CostedItem entry{costs[static_cast<std::size_t>(item)], item};
      group.cost += entry.cost;
      group.size += size_of(entry);
    }
    by_cost_.emplace(group.cost, g);
  }
}

void GroupExchanges::open(std::size_t g) {
  Group& group = groups_[g];
  if (group.is_open) return;
  group.is_open = true;
  const std::span<const Item> items = start_[static_cast<std::int64_t>(g)];
  group.items.reserve(items.size() + 1);
  for (const Item item : items) group.items.push_back({costs_[static_cast<std::size_t>(item)], item});
  std::ranges::sort(group.items);
}

CostedItem GroupExchanges::take(Group& from, std::size_t position) const {
  const auto place = from.items.begin() + static_cast<std::ptrdiff_t>(position);
  const CostedItem entry = *place;
  from.items.erase(place);
  from.cost -= entry.cost;
  from.size -= size_of(entry);
  return entry;
}

void GroupExchanges::put(Group& into, const CostedItem& entry) const {
  into.items.insert(std::ranges::lower_bound(into.items, entry), entry);
  into.cost += entry.cost;
  into.size += size_of(entry);
}

void GroupExchanges::apply(std::size_t heavy, std::size_t light, const Exchange& exchange) {
  auto heavy_node = by_cost_.extract({groups_[heavy].cost, heavy});
  auto light_node = by_cost_.extract({groups_[light].cost, light});
  const CostedItem given = take(groups_[heavy], exchange.given);
  if (exchange.taken) put(groups_[heavy], take(groups_[light], *exchange.taken));
  put(groups_[light], given);
  heavy_node.value().first = groups_[heavy].cost;
  light_node.value().first = groups_[light].cost;
  by_cost_.insert(std::move(heavy_node));
  by_cost_.insert(std::move(light_node));
}

bool GroupExchanges::improve_costliest(std::int64_t& budget) {
  const std::size_t heavy = by_cost_.rbegin()->second;
  open(heavy);
  for (const auto& [cost, light] : by_cost_) {
    if (groups_[heavy].cost - cost < 2 || budget <= 0) return false;
    open(light);
    constexpr std::int64_t overhead = 16;  // of a search, in items looked at
    budget -= static_cast<std::int64_t>(groups_[heavy].items.size() + groups_[light].items.size()) + overhead;
    PairSearch search(*this, groups_[heavy], groups_[light]);
    if (const std::optional<Exchange> exchange = search.run()) {
      apply(heavy, light, *exchange);
      return true;
    }
  }
  return false;
}

bool GroupExchanges::even_out(Cost goal) {
  std::int64_t budget = 32 * static_cast<std::int64_t>(costs_.size()) + (1 << 16);
  bool has_changed = false;
  while (!by_cost_.empty() && by_cost_.rbegin()->first > goal && improve_costliest(budget))
    has_changed = true;
  return has_changed;
}

Partition GroupExchanges::result() const {
  std::vector<Item> items;
  items.reserve(costs_.size());
  std::vector<std::int64_t> offsets{0};
  offsets.reserve(groups_.size() + 1);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].is_open) {
      for (const CostedItem& entry : groups_[g].items) items.push_back(entry.item);
    } else {
      const std::span<const Item> unchanged = start_[static_cast<std::int64_t>(g)];
      items.insert(items.end(), unchanged.begin(), unchanged.end());
    }
    offsets.push_back(static_cast<std::int64_t>(items.size()));
  }
  return {std::move(items), std::move(offsets)};
}

}  // namespace evenkeel
