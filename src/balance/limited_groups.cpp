#include "limited_groups.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

#include "evenkeel/balance/karmarkar_karp.hpp"

namespace evenkeel {

LimitedGroups::LimitedGroups(const Partition& start, std::span<const Cost> costs,
                             std::span<const std::int64_t> sizes, BinLimits limits)
    : sizes_(sizes), limits_(limits), groups_(static_cast<std::size_t>(start.size())) {
  for (std::int64_t g = 0; g < start.size(); ++g) {
    Group& group = groups_[static_cast<std::size_t>(g)];
    for (const Item item : start[g]) {
      const CostedItem& entry =
          group.items.emplace_back(CostedItem{costs[static_cast<std::size_t>(item)], item});
      group.cost += entry.cost;
      group.size += size_of(entry);
    }
    std::ranges::sort(group.items);
  }
}

void LimitedGroups::split_to(std::int64_t k) {
  const auto wanted = static_cast<std::size_t>(k);
  std::priority_queue<std::pair<Cost, std::size_t>> divisible;
  const auto offer = [&](std::size_t g) {
    if (groups_[g].items.size() > 1) divisible.emplace(groups_[g].cost, g);
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) offer(g);
  while (groups_.size() < wanted && !divisible.empty()) {
    const std::size_t parent = divisible.top().second;
    divisible.pop();
    std::vector<Cost> costs;
    for (const CostedItem& entry : groups_[parent].items) costs.push_back(entry.cost);
    const Partition halves = karmarkar_karp(costs, 2).with_sorted_items();
    Group child;
    // Backwards, so that positions still to come stay right.
    for (std::size_t i = halves[1].size(); i-- > 0;) {
      const CostedItem entry = groups_[parent].items[static_cast<std::size_t>(halves[1][i])];
      transfer(groups_[parent], child, entry);
    }
    groups_.push_back(std::move(child));
    offer(parent);
    offer(groups_.size() - 1);
  }
  groups_.resize(std::max(groups_.size(), wanted));
}

bool LimitedGroups::allows(const Group& heavy, const Group& light, const CostedItem& given,
                           const std::optional<CostedItem>& taken) const {
  const std::int64_t growth = size_of(given) - (taken ? size_of(*taken) : 0);
  const bool sizes_fit = light.size + growth <= limits_.max_size && heavy.size - growth <= limits_.max_size;
  return sizes_fit && (taken || static_cast<std::int64_t>(light.items.size()) < limits_.max_items);
}

void LimitedGroups::consider(const Group& heavy, const Group& light, const CostedItem& given,
                             std::optional<Exchange>& best) const {
  const Cost gap = heavy.cost - light.cost;
  const auto offer = [&](const std::optional<CostedItem>& taken) {
    const Cost shift = given.cost - (taken ? taken->cost : 0);
    if (shift <= 0 || shift >= gap || !allows(heavy, light, given, taken)) return false;
    const Cost distance = std::max(2 * shift - gap, gap - 2 * shift);
    if (!best || distance < best->distance) best = Exchange{given, taken, distance};
    return true;
  };
  offer(std::nullopt);
  // Swaps near the one that would make both groups equal; limits may forbid the nearest few.
  constexpr std::ptrdiff_t reach = 8;
  const auto ideal = std::ranges::lower_bound(light.items, given.cost - gap / 2, {}, &CostedItem::cost) -
                     light.items.begin();
  const auto count = static_cast<std::ptrdiff_t>(light.items.size());
  for (std::ptrdiff_t i = ideal; i < std::min(ideal + reach, count); ++i) {
    if (offer(light.items[static_cast<std::size_t>(i)])) break;
  }
  for (std::ptrdiff_t i = ideal; i-- > std::max<std::ptrdiff_t>(ideal - reach, 0);) {
    if (offer(light.items[static_cast<std::size_t>(i)])) break;
  }
}

std::optional<LimitedGroups::Exchange> LimitedGroups::best_exchange(const Group& heavy,
                                                                    const Group& light) const {
  std::optional<Exchange> best;
  for (const CostedItem& given : heavy.items) consider(heavy, light, given, best);
  return best;
}

void LimitedGroups::transfer(Group& from, Group& to, const CostedItem& entry) const {
  from.items.erase(std::ranges::lower_bound(from.items, entry));
  to.items.insert(std::ranges::lower_bound(to.items, entry), entry);
  from.cost -= entry.cost;
  to.cost += entry.cost;
  from.size -= size_of(entry);
  to.size += size_of(entry);
}

void LimitedGroups::apply(std::size_t heavy, std::size_t light, const Exchange& exchange) {
  by_cost_.erase({groups_[heavy].cost, heavy});
  by_cost_.erase({groups_[light].cost, light});
  transfer(groups_[heavy], groups_[light], exchange.given);
  if (exchange.taken) transfer(groups_[light], groups_[heavy], *exchange.taken);
  by_cost_.emplace(groups_[heavy].cost, heavy);
  by_cost_.emplace(groups_[light].cost, light);
}

bool LimitedGroups::improve_costliest(std::int64_t& budget) {
  const std::size_t heavy = by_cost_.rbegin()->second;
  for (const auto& [cost, light] : by_cost_) {
    if (groups_[heavy].cost - cost < 2 || budget <= 0) return false;
    budget -= static_cast<std::int64_t>(groups_[heavy].items.size());
    if (const std::optional<Exchange> exchange = best_exchange(groups_[heavy], groups_[light])) {
      apply(heavy, light, *exchange);
      return true;
    }
  }
  return false;
}

void LimitedGroups::even_out() {
  if (groups_.empty()) return;
  for (std::size_t g = 0; g < groups_.size(); ++g) by_cost_.emplace(groups_[g].cost, g);
  std::int64_t budget = 16 * static_cast<std::int64_t>(sizes_.size()) + (1 << 16);
  while (improve_costliest(budget)) {
  }
  by_cost_.clear();
}

Partition LimitedGroups::result() const {
  std::vector<std::vector<Item>> groups;
  std::vector<std::tuple<Cost, std::size_t, Item, std::size_t>> order;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<Item>& items = groups.emplace_back();
    for (const CostedItem& entry : groups_[g].items) items.push_back(entry.item);
    std::ranges::sort(items);
    order.emplace_back(groups_[g].cost, items.size(), items.empty() ? -1 : items.front(), g);
  }
  std::ranges::sort(order, std::ranges::greater{});
  std::vector<std::vector<Item>> heaviest_first;
  for (const auto& entry : order) heaviest_first.push_back(std::move(groups[std::get<3>(entry)]));
  return Partition{heaviest_first};
}

}  // namespace evenkeel
