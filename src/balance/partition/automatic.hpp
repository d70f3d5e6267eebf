#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// The most even partition of `costs` into k groups that is found in near-linear time: by Karmarkar-Karp, or
/// by longest processing time where counts must be equal (differencing sorted runs stays far from even there)
/// or k is above 16384 (where free differencing is slow), refined when `refined`. If that ends farther than
/// 10 parts in a million above max_sum_lower_bound, the other of the two is tried as well, unless it is the
/// slow one, and the better result kept, the first on a tie.
///
/// With GroupSize::equal counts differ by one at most. The order of groups and items is that of the algorithm
/// kept, and refine()'s. Deterministic, local, O(n log n) for balanced inputs. Throws as karmarkar_karp does.
///
/// Example: costs {8, 7, 6, 6, 5}, k = 2: Karmarkar-Karp's largest sum is 18; this one's is 17, the bound.
[[nodiscard]] Partition balance_items(std::span<const Cost> costs, std::int64_t k,
                                      GroupSize group_size = GroupSize::free, bool refined = true);

}  // namespace evenkeel
