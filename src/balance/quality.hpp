#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// Returns a lower bound on the largest sum of any partition of `costs` into k groups; 0 without items. It is
/// the maximum of:
/// - ceil(sum / k);
/// - for each j, the sum of the j smallest of the (j-1) k + 1 largest items, since some group contains j of
///   these items. With GroupSize::equal, every group has at least m = floor(n/k) items, so the sum of the m-j
///   smallest of all items is added;
/// - with GroupSize::equal, for each t, ceil(sum / t) of the t largest items and the t (m-1) smallest items,
///   since the t largest items are in at most t groups.
///
/// O(n) for costs of bounded width.
///
/// Example: costs {9, 9, 1, 2, 3, 4} and k = 3 give 10 with GroupSize::free, which is the mean rounded up,
/// and 11 with GroupSize::equal, which is half of 9 + 9 + 1 + 2.
[[nodiscard]] Cost max_sum_lower_bound(std::span<const Cost> costs, std::int64_t k,
                                       GroupSize group_size = GroupSize::free);

/// Measures of the evenness of a list of sums.
struct BalanceQuality {
  Cost min = 0;
  Cost max = 0;
  double mean = 0;
  double max_over_mean = 1;  ///< 1 if perfectly even or if the mean is 0

  friend bool operator==(const BalanceQuality&, const BalanceQuality&) = default;
};

/// Returns the balance quality of k sums; zeros (and 1 for max_over_mean) for an empty list.
[[nodiscard]] BalanceQuality balance_quality(std::span<const Cost> sums);

/// Parameters of estimated_time().
struct GroupTiming {
  Cost overhead = 0;        ///< constant cost of each group in addition to its items, in the same units
  std::int64_t stages = 1;  ///< number of pipeline stages that each group passes through
};

/// Returns the assumed constant cost of a group, the work of 256 tokens. It is used if the cost has not been
/// measured; overhead_cost_of (cost_fit.hpp) returns the measured cost.
[[nodiscard]] Cost default_overhead(const CostModel& model);

/// Returns the time of ranks that synchronize after every group: the sum over j of overhead + max over r of
/// cost(r, j), plus (stages - 1) * (overhead + largest cost) for the pipeline's warm-up and drain. Lists may
/// differ in length; missing groups cost zero.
[[nodiscard]] Cost estimated_time(std::span<const std::vector<Cost>> costs_of_ranks, GroupTiming timing);

}  // namespace evenkeel
