#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Longest processing time first (Graham, 1969): items by falling cost, each to the lightest group. This is
/// MindSpeed-RL's DP batch balance (`heapq_partition`), identical to it including ties and the order of the
/// groups returned: of equal costs the larger item goes first; groups are taken by (sum, count, number);
/// with GroupSize::equal the groups that filled up come first, in that order, then the others as the
/// reference's heap holds them. Where the reference fails (equal sizes, k not dividing n), groups take
/// n/k rounded up until the remainder is used up.
///
/// Local, deterministic, O(n log n). Throws InputError as karmarkar_karp does.
[[nodiscard]] Partition longest_processing_time(std::span<const Cost> costs, std::int64_t k,
                                                GroupSize group_size = GroupSize::free);

/// MindSpeed-RL's `heapq_partition_with_max`: as above, but when an item would lift the lightest group above
/// `cap`, that group is closed and a new one starts with the item. Closed groups come first, in closing
/// order, then the rest as the heap holds them. The cap holds for every group whose items each fit under it;
/// an item above the cap is placed alone (and may close an empty group first, as in the reference). k may be
/// 0 when there are no items.
[[nodiscard]] Partition longest_processing_time_with_cap(std::span<const Cost> costs, std::int64_t k,
                                                         Cost cap);

/// Free differencing is O(n k) at worst, seconds for more groups than this.
inline constexpr std::int64_t most_differenced_groups = 1 << 14;

}  // namespace evenkeel
