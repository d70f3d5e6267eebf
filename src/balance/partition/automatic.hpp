#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Partitions `costs` into k groups as evenly as possible in near-linear time:
/// 1. Run Karmarkar-Karp. Run longest processing time instead if counts must be equal, because Karmarkar-Karp
///    is then usually less even, or if k > 16384, because Karmarkar-Karp is then slow. If `refined`, improve
///    the result by moves and swaps of single items.
/// 2. If the result is more than 10 parts per million above max_sum_lower_bound(), also try the other
///    algorithm, unless it is slow. Keep the better result; on a tie, the first one.
/// 3. If `refined`, both algorithms were tried, and the result is still that far from the bound, exchange up
///    to three items for up to three others. This helps if groups have few items.
///
/// With GroupSize::equal, counts differ by at most one. Groups and items are in the order in which the better
/// algorithm returns them; after an exchange, in that of refine(). Deterministic, local, O(n log n) for
/// balanced inputs. Throws InputError if k < 1, a cost is negative, or the costs sum to 2^62 or more.
///
/// Example: for costs {8, 7, 6, 6, 5} and k = 2, Karmarkar-Karp's largest sum is 18; the largest sum of this
/// function is 17, which is the bound.
[[nodiscard]] Partition balance_items(std::span<const Cost> costs, std::int64_t k,
                                      GroupSize group_size = GroupSize::free, bool refined = true);

}  // namespace evenkeel
