#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Longest processing time first (Graham, 1969): assigns items by descending cost, each to the lightest
/// group. The result is identical to that of MindSpeed-RL's DP batch balance (`heapq_partition`), including
/// ties and the order of groups:
/// - If costs are equal, the larger item is first.
/// - Groups are chosen by (sum, count, number).
/// - With GroupSize::equal, full groups come first, in the order in which they filled up, then the others in
///   the order of the reference's heap.
/// If the reference fails (equal sizes, k does not divide n), groups take n/k rounded up until the remainder
/// is used up.
///
/// Local, deterministic, O(n log n). Throws the errors of karmarkar_karp().
[[nodiscard]] Partition longest_processing_time(std::span<const Cost> costs, std::int64_t k,
                                                GroupSize group_size = GroupSize::free);

/// MindSpeed-RL's `heapq_partition_with_max`: as above, but if an item would raise the lightest group above
/// `cap`, that group is closed and the item starts a new group. Closed groups come first, in the order of
/// closing, then the others in the order of the heap. A group never exceeds the cap unless it consists of a
/// single item that does; such an item gets its own group (and may first close an empty group, as in the
/// reference). k may be 0 if there are no items.
[[nodiscard]] Partition longest_processing_time_with_cap(std::span<const Cost> costs, std::int64_t k,
                                                         Cost cap);

/// Maximum number of groups for free differencing, which is O(n k) in the worst case and takes seconds for
/// more.
inline constexpr std::int64_t max_differenced_groups = 1 << 14;

}  // namespace evenkeel
