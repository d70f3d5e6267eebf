#include "balance/groups/split_groups.hpp"

#include <cstddef>
#include <queue>
#include <utility>
#include <vector>

#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

namespace {

/// Items shared out to two groups.
std::pair<std::vector<Item>, std::vector<Item>> halves(const std::vector<Item>& items,
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

Partition split_groups(const Partition& start, std::span<const Cost> costs, std::int64_t k) {
  EVENKEEL_PRECONDITION(cheap, start.size() <= k, start.size(), k);
  const auto wanted = static_cast<std::size_t>(k);
  std::vector<std::vector<Item>> groups = start.to_vectors();
  std::priority_queue<std::pair<Cost, std::size_t>> divisible;
  const auto offer = [&](std::size_t g) {
    if (groups[g].size() > 1) divisible.emplace(sum_of(groups[g], costs), g);
  };
  for (std::size_t g = 0; g < groups.size(); ++g) offer(g);
  while (groups.size() < wanted && !divisible.empty()) {
    const std::size_t parent = divisible.top().second;
    divisible.pop();
    auto [kept, parted] = halves(groups[parent], costs);
    groups[parent] = std::move(kept);
    groups.push_back(std::move(parted));
    offer(parent);
    offer(groups.size() - 1);
  }
  groups.resize(wanted);
  return Partition{groups};
}

}  // namespace evenkeel
