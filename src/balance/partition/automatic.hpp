#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Partitions `costs` into k groups as evenly as possible in near-linear time:
/// 1. Use Karmarkar-Karp, or longest processing time if counts must be equal (differencing sorted runs is far
///    from even in that case) or if k is above 16384 (free differencing is slow in that case). Refine the
///    result if `refined`.
/// 2. If the result is more than 10 parts per million above max_sum_lower_bound, also try the other
///    algorithm, unless it is slow. Keep the better result; on a tie, the first one.
/// 3. If `refined` and the result is still that far from the bound, exchange up to three items for up to
///    three others. This helps if groups have few items.
///
/// With GroupSize::equal, counts differ by at most one. The order of groups and items is that of the
/// algorithm whose result is kept, and of refine(). Deterministic, local, O(n log n) for balanced inputs.
/// Throws the errors of karmarkar_karp.
///
/// Example: for costs {8, 7, 6, 6, 5} and k = 2, Karmarkar-Karp's largest sum is 18; the largest sum of this
/// function is 17, which is the bound.
[[nodiscard]] Partition balance_items(std::span<const Cost> costs, std::int64_t k,
                                      GroupSize group_size = GroupSize::free, bool refined = true);

}  // namespace evenkeel
