#pragma once

#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Makes the largest sum of `start` smaller: an item moves from the heaviest group to a lighter one, or two
/// items are swapped, whichever brings the two sums nearest to each other, until max_sum_lower_bound is
/// reached, no exchange with any group helps, or the work bound is used up. With GroupSize::equal items are
/// only swapped, so that every group keeps its count.
///
/// The largest sum is never above that of `start`. Groups keep their places; those that were looked at list
/// their items by rising (cost, item), the others are as they were, and all are when nothing helped.
///
/// Deterministic: the work is bounded by a count, O(n), not by a clock; sorting the groups looked at costs
/// O(n log(n/k)) at most. Local. Precondition: `start` holds each item of `costs` once. Throws InputError
/// when it has another number of items, when GroupSize::equal is asked for and its counts differ by more than
/// one, and as karmarkar_karp does.
///
/// Example: costs {4, 3, 3, 2, 2}, start {0, 1, 2}, {3, 4}, free gives {2, 0}, {3, 4, 1}.
[[nodiscard]] Partition refine(std::span<const Cost> costs, Partition start, GroupSize group_size);

}  // namespace evenkeel
