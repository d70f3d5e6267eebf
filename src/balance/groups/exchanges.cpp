#include "balance/groups/exchanges.hpp"

#include <algorithm>
#include <optional>

#include "balance/checks.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

GroupExchanges::GroupExchanges(const Partition& start, std::span<const Cost> costs,
                               const ExchangeRules& rules)
    : start_(start), costs_(costs), rules_(rules), groups_(static_cast<std::size_t>(start.size())) {
  EVENKEEL_PRECONDITION(thorough,
                        rules.items.sizes.empty() || rules.bins > 1 ||
                            balance_checks::are_within(start, rules.items, rules.limits),
                        rules.limits.max_size, rules.limits.max_items);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    for (const Item item : start[static_cast<std::int64_t>(g)]) {
      const CostedItem entry{costs[static_cast<std::size_t>(item)], item};
      group.cost += entry.cost;
      group.size += rules_.size_of(item);
      group.count += rules_.count_of(item);
    }
    if (rules_.bins > 1) group.bins = count_bins(start[static_cast<std::int64_t>(g)], rules_);
    by_cost_.emplace(group.total(rules_), g);
  }
}

void GroupExchanges::list_items(std::size_t g) {
  Group& group = groups_[g];
  if (group.has_listed_items) return;
  group.has_listed_items = true;
  const std::span<const Item> items = start_[static_cast<std::int64_t>(g)];
  group.items.reserve(items.size() + 1);
  for (const Item item : items) group.items.push_back({costs_[static_cast<std::size_t>(item)], item});
  std::ranges::sort(group.items);
}

void GroupExchanges::apply(std::size_t heavy, std::size_t light, const Exchange& exchange) {
  auto heavy_node = by_cost_.extract({groups_[heavy].total(rules_), heavy});
  auto light_node = by_cost_.extract({groups_[light].total(rules_), light});
  exchange.apply(groups_[heavy], groups_[light], rules_);
  for (const std::size_t g : {heavy, light}) {
    Group& group = groups_[g];
    group.sets.clear();
    if (rules_.bins == 1) continue;
    std::vector<Item> items;
    for (const CostedItem& entry : group.items) items.push_back(entry.item);
    group.bins = count_bins(items, rules_);
  }
  heavy_node.value().first = groups_[heavy].total(rules_);
  light_node.value().first = groups_[light].total(rules_);
  by_cost_.insert(std::move(heavy_node));
  by_cost_.insert(std::move(light_node));
}

std::span<const ItemSubset> GroupExchanges::sets_of(std::size_t g, std::int64_t& budget) {
  Group& group = groups_[g];
  if (group.sets.empty()) {
    constexpr std::int64_t sorting = 8;  // time for sorting one set, in units of examining one set
    group.sets = small_sets(group);
    budget -= sorting * std::ssize(group.sets);
  }
  return group.sets;
}

template <typename Find>
bool GroupExchanges::improve_costliest(const Find& find, std::int64_t& budget) {
  const auto [highest, heavy] = *by_cost_.rbegin();
  list_items(heavy);
  for (const auto& [total, light] : by_cost_) {
    const Cost gap = highest - total;
    if (gap < 2 || budget <= 0) return false;
    list_items(light);
    if (const std::optional<Exchange> exchange = find(heavy, light, WantedShift{gap, gap - 1})) {
      apply(heavy, light, *exchange);
      return true;
    }
  }
  return false;
}

bool GroupExchanges::even_out(Cost goal) {
  std::int64_t budget = 32 * static_cast<std::int64_t>(costs_.size()) + (1 << 16);
  const auto by_items = [&](std::size_t heavy, std::size_t light, WantedShift wanted) {
    return find_exchange(groups_[heavy], groups_[light], wanted, rules_, budget);
  };
  bool has_changed = false;
  while (largest_cost() > goal && improve_costliest(by_items, budget)) has_changed = true;
  return has_changed;
}

bool GroupExchanges::even_out_by_sets(Cost goal) {
  std::int64_t budget = std::min<std::int64_t>(1024 * static_cast<std::int64_t>(costs_.size()), 1 << 20);
  const auto by_sets = [&](std::size_t heavy, std::size_t light, WantedShift wanted) {
    return find_set_exchange(groups_[heavy], sets_of(heavy, budget), groups_[light], sets_of(light, budget),
                             wanted, rules_, budget);
  };
  bool has_changed = even_out(goal);
  while (largest_cost() > goal && improve_costliest(by_sets, budget)) has_changed = true;
  return has_changed;
}

Partition GroupExchanges::result() const {
  std::vector<Item> items;
  items.reserve(costs_.size());
  std::vector<std::int64_t> offsets{0};
  offsets.reserve(groups_.size() + 1);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].has_listed_items) {
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
