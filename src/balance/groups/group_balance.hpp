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

}  // namespace evenkeel
