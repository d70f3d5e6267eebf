#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Each item in the group that is named for it, in the order in which items stand. Preconditions: as many
/// groups are named, each 0 .. groups - 1. O(items + groups).
///
/// Example: items {5, 7, 9} with groups {1, 0, 1} of two are {7} and {5, 9}.
[[nodiscard]] Partition partition_by_group(std::span<const Item> items,
                                           std::span<const std::int32_t> group_of_each, std::int64_t groups);

}  // namespace evenkeel
