#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Partitions `costs` into k groups, as evenly as near-linear time allows:
/// 1. Use Karmarkar-Karp, or longest processing time if counts must be equal (differencing sorted runs is far
///    from even then) or if k is above 16384 (free differencing is slow then). Refine the result if
///    `refined`.
/// 2. If it is more than 10 parts per million above max_sum_lower_bound, try the other algorithm too, unless
///    it is slow. Keep the better result, the first one on a tie.
/// 3. If `refined` and the result is still that far from the bound, exchange up to three items for up to
///    three. This helps if groups have few items.
///
/// With GroupSize::equal, counts differ by at most one. Groups and items are in the order of the algorithm
/// kept, and of refine(). Deterministic, local, O(n log n) for balanced inputs. Throws as karmarkar_karp
/// does.
///
/// Example: costs {8, 7, 6, 6, 5}, k = 2: Karmarkar-Karp's largest sum is 18; this one's is 17, the bound.
[[nodiscard]] Partition balance_items(std::span<const Cost> costs, std::int64_t k,
                                      GroupSize group_size = GroupSize::free, bool refined = true);

}  // namespace evenkeel
