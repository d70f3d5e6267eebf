#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Assigns items to groups that work at different speeds, so that they end together: a group of half the
/// speed gets half the work. Speeds are integers in any one unit. Equal speeds are balance_items; else items
/// by falling cost, each to the group that would end it first (longest processing time for uniform machines),
/// then moves and swaps from the group that ends last, never worse than that.
///
/// Group g has speed g. Deterministic, local; O(n (distinct speeds + log k)) and improvement bounded by O(n).
/// Throws InputError when a speed is below 1 or above 2^31, and as karmarkar_karp does.
///
/// Example: costs {6, 5, 4, 3}, speeds {2, 1}: the first group gets 5 + 4 + 3 and the other 6; both end at 6.
[[nodiscard]] Partition partition_by_speed(std::span<const Cost> costs, std::span<const std::int64_t> speeds);

}  // namespace evenkeel
