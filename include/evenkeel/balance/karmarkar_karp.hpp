#pragma once

#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Karmarkar and Karp's largest differencing method for k groups ("The differencing method of set
/// partitioning", 1982; k-way as in Michiels, Korst and Aarts, 2003), identical to the implementation that
/// verl, slime and MindSpeed-RL share, including the order of groups and of items in them, and all ties.
///
/// Groups are in descending order, by (sum, number of items, items as (item, cost) pairs in insertion order);
/// items are in the order in which they were joined. With GroupSize::equal, each run of k items in ascending
/// order supplies one item to each group. If k does not divide n (which the reference refuses), the run with
/// the smallest items is shorter, so counts differ by at most one.
///
/// Deterministic: (cost, item) is a total order on ties. Local. O(n log n) for balanced inputs, O(n k log n)
/// in the worst case. O(n + k) memory, plus at most O(k) per partial solution. Throws InputError if k < 1, a
/// cost is negative, or the costs sum to 2^62 or more; LimitError for 2^31 items or more.
///
/// Example: costs {1, 2, 2, 5, 3, 7, 6, 3}, k = 4, free gives {1, 6}, {7, 4, 0}, {3, 2}, {5}.
[[nodiscard]] Partition karmarkar_karp(std::span<const Cost> costs, std::int64_t k,
                                       GroupSize group_size = GroupSize::free);

}  // namespace evenkeel
