#include "balance/groups/exchanges.hpp"

#include <algorithm>

#include "balance/checks.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

GroupExchanges::GroupExchanges(const Partition& start, std::span<const Cost> costs,
                               const ExchangeRules& rules)
    : start_(start), costs_(costs), rules_(rules), groups_(static_cast<std::size_t>(start.size())) {
  EVENKEEL_PRECONDITION(
      thorough, rules.items.sizes.empty() || balance_checks::are_within(start, rules.items, rules.limits),
      rules.limits.max_size, rules.limits.max_items);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    for (const Item item : start[static_cast<std::int64_t>(g)]) {
      const CostedItem entry{costs[static_cast<std::size_t>(item)], item};
      group.cost += entry.cost;
      group.size += rules_.size_of(item);
      group.count += rules_.count_of(item);
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

void GroupExchanges::apply(std::size_t heavy, std::size_t light, const Exchange& exchange) {
  auto heavy_node = by_cost_.extract({groups_[heavy].cost, heavy});
  auto light_node = by_cost_.extract({groups_[light].cost, light});
  exchange.apply(groups_[heavy], groups_[light], rules_);
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
    const Cost gap = groups_[heavy].cost - cost;
    if (const auto exchange = find_exchange(groups_[heavy], groups_[light], {gap, gap - 1}, rules_)) {
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
