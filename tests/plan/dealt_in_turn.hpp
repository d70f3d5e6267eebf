#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel::testing_support {

/// Returns items 0..n-1, distributed over DP ranks in a round-robin fashion.
inline Partition dealt_in_turn(std::int64_t n, std::int64_t dp) {
  std::vector<std::vector<Item>> groups(static_cast<std::size_t>(dp));
  for (Item item = 0; item < n; ++item) groups[static_cast<std::size_t>(item % dp)].push_back(item);
  return Partition{groups};
}

}  // namespace evenkeel::testing_support
