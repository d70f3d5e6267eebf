#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Returns lists of 0 to `max_items` costs of one kind: all zero, many ties, lengths, large, huge, or all
/// equal.
inline rc::Gen<std::vector<Cost>> cost_lists(std::size_t max_items) {
  const auto of_range = [=](Cost end) {
    return rc::gen::mapcat(rc::gen::inRange<std::size_t>(0, max_items + 1), [=](std::size_t n) {
      return rc::gen::container<std::vector<Cost>>(n, rc::gen::resize(100, rc::gen::inRange<Cost>(0, end)));
    });
  };
  const auto constant =
      rc::gen::apply([](std::size_t n, Cost value) { return std::vector<Cost>(n, value); },
                     rc::gen::inRange<std::size_t>(0, max_items + 1), rc::gen::inRange<Cost>(0, 9));
  return rc::gen::oneOf(of_range(2), of_range(4), of_range(50), of_range(32769), of_range(1'000'000'000),
                        of_range(Cost{1} << 45), constant);
}

/// Returns whether the items of the partition are 0..n-1, each in exactly one group.
inline bool holds_every_item_once(const Partition& partition, std::size_t n) {
  std::vector<Item> items(partition.items().begin(), partition.items().end());
  std::ranges::sort(items);
  std::vector<Item> expected(n);
  std::iota(expected.begin(), expected.end(), Item{0});
  return items == expected;
}

/// Returns the difference between the largest and the smallest number of items in a group.
inline std::int64_t count_spread(const Partition& partition) {
  std::int64_t fewest = partition.num_items();
  std::int64_t most = 0;
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    const auto count = static_cast<std::int64_t>(partition[g].size());
    fewest = std::min(fewest, count);
    most = std::max(most, count);
  }
  return most - fewest;
}

/// Returns 0 if there are no costs.
inline Cost largest_of(std::span<const Cost> costs) {
  return std::accumulate(costs.begin(), costs.end(), Cost{0},
                         [](Cost left, Cost right) { return std::max(left, right); });
}

inline Cost largest_sum(const Partition& partition, std::span<const Cost> costs) {
  return largest_of(group_sums(partition, costs));
}

}  // namespace evenkeel
