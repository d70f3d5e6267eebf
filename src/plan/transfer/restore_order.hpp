#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Returns the position of each item in `order`: inverse_order(order)[order[i]] = i. Throws InputError if
/// `order` does not contain each of 0..n-1 once. O(n).
///
/// Example: {2, 0, 1} gives {1, 2, 0}.
[[nodiscard]] std::vector<std::int64_t> inverse_order(std::span<const Item> order);

/// Returns `results`, which are ordered by group, in the order of the items. This is the inverse of the order
/// of partition.items(). Throws InputError if `results` does not have one entry per item, or if the partition
/// does not contain each item once. O(n).
///
/// Example: groups {2, 0} and {1} with results {"c", "a", "b"} give {"a", "b", "c"}.
template <typename T>
[[nodiscard]] std::vector<T> restore_order(const Partition& partition, std::span<const T> results) {
  if (static_cast<std::int64_t>(results.size()) != partition.num_items()) {
    throw InputError("results", "there are " + std::to_string(results.size()) + " for " +
                                    std::to_string(partition.num_items()) + " samples");
  }
  std::vector<T> restored;
  restored.reserve(results.size());
  for (const std::int64_t at : inverse_order(partition.items())) {
    restored.push_back(results[static_cast<std::size_t>(at)]);
  }
  return restored;
}

}  // namespace evenkeel
