#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Where each item stands in an order: inverse_order(order)[order[i]] = i. Throws InputError when `order`
/// does not hold each of 0..n-1 once. O(n).
///
/// Example: {2, 0, 1} gives {1, 2, 0}.
[[nodiscard]] std::vector<std::int64_t> inverse_order(std::span<const Item> order);

/// Results that came out group after group, back in the items' own order: the inverse of handing out
/// partition.items(). `results` has one entry an item of the partition; throws InputError when it does not,
/// or when the partition does not hold each item once. O(n).
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
