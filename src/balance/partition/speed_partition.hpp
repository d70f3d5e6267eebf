#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Assigns items to groups of different speeds so that the groups end at nearly the same time: a group with
/// half the speed gets half the work. Speeds are integers in any common unit. If all speeds are equal, this
/// is the same as balance_items(). Otherwise:
/// 1. Assign items by descending cost, each to the group in which it would end first (longest processing time
///    for uniform machines).
/// 2. Move and swap items from the group that ends last, which never makes the result worse.
///
/// Group g has speed speeds[g]. Deterministic, local; O(n (distinct speeds + log k)), with improvement
/// bounded by O(n). Throws InputError if there are no groups, a speed is below 1 or above 2^31, a cost is
/// negative, or the costs sum to 2^62 or more.
///
/// Example: costs {6, 5, 4, 3} and speeds {2, 1} give 5 + 4 + 3 to the first group and 6 to the second; both
/// end at 6.
[[nodiscard]] Partition partition_by_speed(std::span<const Cost> costs, std::span<const std::int64_t> speeds);

}  // namespace evenkeel
