#include "balance/groups/group_balance.hpp"

#include <cstddef>
#include <numeric>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// Returns the items of each key, with keys in order of first appearance.
std::vector<std::vector<Item>> items_by_key(std::span<const std::uint64_t> keys) {
  std::vector<std::vector<Item>> groups;
  std::unordered_map<std::uint64_t, std::size_t> group_of;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto [entry, is_new] = group_of.try_emplace(keys[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[entry->second].push_back(static_cast<Item>(i));
  }
  return groups;
}

/// Splits items into two groups of nearly equal cost.
std::pair<std::vector<Item>, std::vector<Item>> split_into_halves(const std::vector<Item>& items,
                                                                  std::span<const Cost> costs) {
  std::vector<Cost> own_costs;
  own_costs.reserve(items.size());
  for (const Item item : items) own_costs.push_back(costs[static_cast<std::size_t>(item)]);
  const Partition halves = karmarkar_karp(own_costs, 2).with_sorted_items();
  const auto items_of = [&](std::int64_t half) {
    std::vector<Item> result;
    for (const Item position : halves[half]) result.push_back(items[static_cast<std::size_t>(position)]);
    return result;
  };
  return {items_of(0), items_of(1)};
}

Cost sum_of(const std::vector<Item>& items, std::span<const Cost> costs) {
  Cost sum = 0;
  for (const Item item : items) sum += costs[static_cast<std::size_t>(item)];
  return sum;
}

}  // namespace

Partition balance_whole_groups(std::span<const Cost> costs, std::span<const std::uint64_t> keys,
                               std::int64_t k, GroupSize groups_per_part) {
  if (keys.size() != costs.size()) {
    throw InputError("keys", format_there_are(std::ssize(keys), "key") + " for " +
                                 format_plain_count(std::ssize(costs), "cost") +
                                 "; the two numbers must be equal");
  }
  balance_checks::checked_sum(costs, "costs");
  const Partition groups{items_by_key(keys)};
  const Partition of_groups = karmarkar_karp(group_sums(groups, costs), k, groups_per_part);

  std::vector<std::vector<Item>> parts(static_cast<std::size_t>(k));
  for (std::int64_t part = 0; part < k; ++part) {
    std::vector<Item>& samples = parts[static_cast<std::size_t>(part)];
    for (const Item group : of_groups[part])
      samples.insert(samples.end(), groups[group].begin(), groups[group].end());
  }
  return Partition{parts}.with_sorted_items();
}

Partition partition_by_group(std::span<const Item> items, std::span<const std::int32_t> group_of_each,
                             std::int64_t groups) {
  EVENKEEL_PRECONDITION(cheap, items.size() == group_of_each.size(), items.size(), group_of_each.size());
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(groups) + 1);
  for (const std::int32_t group : group_of_each) ++offsets[static_cast<std::size_t>(group) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<std::int64_t> next = offsets;
  std::vector<Item> grouped(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::int64_t& place = next[static_cast<std::size_t>(group_of_each[i])];
    grouped[static_cast<std::size_t>(place++)] = items[i];
  }
  return Partition(std::move(grouped), std::move(offsets));
}

Partition split_groups(const Partition& start, std::span<const Cost> costs, std::int64_t k) {
  EVENKEEL_PRECONDITION(cheap, start.size() <= k, start.size(), k);
  const auto wanted = static_cast<std::size_t>(k);
  std::vector<std::vector<Item>> groups = start.to_vectors();
  std::priority_queue<std::pair<Cost, std::size_t>> divisible;
  const auto add_if_divisible = [&](std::size_t g) {
    if (groups[g].size() > 1) divisible.emplace(sum_of(groups[g], costs), g);
  };
  for (std::size_t g = 0; g < groups.size(); ++g) add_if_divisible(g);
  while (groups.size() < wanted && !divisible.empty()) {
    const std::size_t parent = divisible.top().second;
    divisible.pop();
    auto [kept, parted] = split_into_halves(groups[parent], costs);
    groups[parent] = std::move(kept);
    groups.push_back(std::move(parted));
    add_if_divisible(parent);
    add_if_divisible(groups.size() - 1);
  }
  groups.resize(wanted);
  return Partition{groups};
}

}  // namespace evenkeel
