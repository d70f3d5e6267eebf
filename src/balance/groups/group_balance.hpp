#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Assigns samples to k parts and keeps samples with the same key (the uid of a prompt group) together:
/// partitions the groups' summed costs by Karmarkar-Karp, optionally with equal numbers of groups per part.
/// Returns the same result as verl's `get_group_balanced_partitions` if k divides the number of groups.
/// Unlike in verl, the samples of a group need not be adjacent. With fewer groups than parts, some parts are
/// empty.
///
/// Parts are in the order of karmarkar_karp(); samples within a part are in ascending order. Local,
/// deterministic. Throws InputError if `keys` and `costs` differ in length, k < 1, a cost is negative, or the
/// costs sum to 2^62 or more.
[[nodiscard]] Partition balance_whole_groups(std::span<const Cost> costs, std::span<const std::uint64_t> keys,
                                             std::int64_t k, GroupSize groups_per_part = GroupSize::equal);

/// Returns a partition in which element i of `items` is in group group_of_each[i]. Items keep their order
/// within a group. Preconditions: both lists have equal length; groups are 0 .. groups - 1. O(items +
/// groups).
///
/// Example: items {5, 7, 9} with groups {1, 0, 1} give the two groups {7} and {5, 9}.
[[nodiscard]] Partition partition_by_group(std::span<const Item> items,
                                           std::span<const std::int32_t> group_of_each, std::int64_t groups);

/// Splits the costliest group that has at least two items into two groups of nearly equal cost, by
/// Karmarkar-Karp, and repeats this until there are k groups; then appends empty groups if needed. Existing
/// groups keep their positions; new groups come after them. Precondition: `start` has at most k groups.
[[nodiscard]] Partition split_groups(const Partition& start, std::span<const Cost> costs, std::int64_t k);

}  // namespace evenkeel
