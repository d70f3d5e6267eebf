#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Longest processing time first (Graham, 1969): assigns items by descending cost, each to the lightest
/// group. The result is identical to that of MindSpeed-RL's DP batch balance (`heapq_partition`), including
/// ties and the order of groups:
/// - If costs are equal, the item with the higher number is first.
/// - Groups are chosen by (sum, count, number).
/// - With GroupSize::equal, full groups come first, in the order in which they filled up, then the others in
///   the order of the reference's heap.
///
/// With GroupSize::equal, the reference fails if k does not divide n. This function then gives n mod k groups
/// one item more than the others.
///
/// Local, deterministic, O(n log n). Throws InputError if k < 1, a cost is negative, or the costs sum to 2^62
/// or more.
[[nodiscard]] Partition longest_processing_time(std::span<const Cost> costs, std::int64_t k,
                                                GroupSize group_size = GroupSize::free);

/// Returns the result of MindSpeed-RL's `heapq_partition_with_max`. Same as longest_processing_time(), but if
/// an item would raise the lightest group above `cap`, that group is closed and the item starts a new group.
/// Closed groups come first, in the order in which they were closed, then the other groups in the order of
/// the heap. A group is above the cap only if it consists of a single item above the cap; such an item gets
/// its own group (and may first close an empty group, as in the reference). k may be 0 if there are no items.
[[nodiscard]] Partition longest_processing_time_with_cap(std::span<const Cost> costs, std::int64_t k,
                                                         Cost cap);

/// Maximum number of groups for Karmarkar-Karp with GroupSize::free. The algorithm is O(n k log n) in the
/// worst case, and takes seconds for more groups.
inline constexpr std::int64_t max_differenced_groups = 1 << 14;

}  // namespace evenkeel
