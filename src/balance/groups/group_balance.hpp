#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Assigns samples to k parts so that samples with the same key (the uid of a prompt group) stay together:
/// the groups' summed costs are partitioned by Karmarkar-Karp, free, or with equal numbers of groups a part,
/// as verl's `get_group_balanced_partitions` does when k divides the number of groups. Samples of one group
/// need not be adjacent (where verl's result splits them). Fewer groups than parts leaves parts empty.
///
/// Parts come in Karmarkar-Karp's order, each part's samples ascending. Local, deterministic.
/// Throws InputError when `keys` and `costs` differ in length, or as karmarkar_karp does.
[[nodiscard]] Partition balance_whole_groups(std::span<const Cost> costs, std::span<const std::uint64_t> keys,
                                             std::int64_t k, GroupSize groups_per_part = GroupSize::equal);

/// Each item in the group that is named for it, in the order in which items stand. Preconditions: as many
/// groups are named, each 0 .. groups - 1. O(items + groups).
///
/// Example: items {5, 7, 9} with groups {1, 0, 1} of two are {7} and {5, 9}.
[[nodiscard]] Partition partition_by_group(std::span<const Item> items,
                                           std::span<const std::int32_t> group_of_each, std::int64_t groups);

/// Halves the costliest group of two items or more by Karmarkar-Karp until there are k groups, then adds
/// empty ones. The groups keep their places, new ones follow. Precondition: `start` has k groups or fewer.
[[nodiscard]] Partition split_groups(const Partition& start, std::span<const Cost> costs, std::int64_t k);

}  // namespace evenkeel
