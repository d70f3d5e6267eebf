#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Groups whose items are packed into bins, for example DP ranks whose samples are packed into micro-batches.
struct BinnedGroups {
  std::int64_t groups = 1;
  BinLimits limits{};            ///< limits of each bin
  std::int64_t least_bins = 1;   ///< minimum number of bins per group
  std::int64_t multiple_of = 1;  ///< a group's number of bins is a multiple of this
  Cost bin_cost = 0;             ///< cost of each bin, in the units of the items' costs
  bool equal_bins = true;        ///< whether all groups have as many bins as the group that needs the most

  /// Returns the number of bins of a group whose items need `needed` bins: raises `needed` to the minimum,
  /// and rounds it up to the multiple.
  [[nodiscard]] std::int64_t bins_for(std::int64_t needed) const;
};

/// Partitions n items into groups so that the largest cost of a group, including its bins, is small:
/// 1. Balance costs with balance_items(), which ignores bins.
/// 2. For up to four numbers of bins per group that are smaller than that of step 1, beginning with the lower
///    bound, make three starting partitions: by partition_under_limits(), with the combined limits of that
///    many bins; by packing all items into bins and distributing the bins evenly; and by balance_items(),
///    with equal numbers of items. Improve each partition by exchanges that keep every group within this
///    number of bins or, if a group has more bins, by exchanges that take the cost of bins into account.
/// 3. If groups may have different numbers of bins, improve the best result and that of step 1 by exchanges
///    that take the cost of bins into account. For up to 4096 items, do the same from best-fit-decreasing
///    bins that are distributed evenly, and from up to eight results of deal_under_limits(), with capacity
///    for different numbers of bins.
///
/// Returns the best result, the first one on a tie. Bins are packed by first-fit-decreasing. If groups may
/// have different numbers of bins, count_groups() is used to compare this result with the best result for
/// equal numbers of bins, and the better one is returned.
///
/// `costs` and `items` have n entries each. Throws InputError if there are no groups, a cost or size is
/// negative, a count is below 1, or a sum reaches 2^62. Throws LimitError naming the first item that does not
/// fit in any bin. Deterministic, local. The amount of work is limited by operation counts, not by time.
/// O(n log n) for balanced inputs.
///
/// Example: costs {9, 5, 4} and sizes {1, 4, 4} in two groups, with bins of size 6. {9} and {5, 4} need one
/// and two bins; {9, 4} and {5} need one bin each. With equal numbers of bins, the largest cost is 9 plus two
/// bins for the first partition, and 13 plus one bin for the second one.
[[nodiscard]] Partition balance_binned_items(std::span<const Cost> costs, BinItems items,
                                             const BinnedGroups& groups);

}  // namespace evenkeel
