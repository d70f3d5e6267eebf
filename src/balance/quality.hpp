#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// A sum that the largest group of any partition of `costs` into k groups reaches: the largest of
/// ceil(sum / k); and, as of the (j-1) k + 1 largest items some group holds j, the j smallest of these. With
/// GroupSize::equal every group has m = floor(n/k) items or more: j such items have the m-j smallest with
/// them, and the t largest items share t groups with the t (m-1) smallest, at ceil(sum / t) or more. 0 for no
/// items. O(n) for costs of bounded width.
///
/// Example: costs {9, 9, 1, 2, 3, 4}, k = 3: free 10, the mean rounded up; equal 11, half of 9 + 9 + 1 + 2.
[[nodiscard]] Cost max_sum_lower_bound(std::span<const Cost> costs, std::int64_t k,
                                       GroupSize group_size = GroupSize::free);

/// How even a list of sums is.
struct BalanceQuality {
  Cost min = 0;
  Cost max = 0;
  double mean = 0;
  double max_over_mean = 1;  ///< 1 is perfect; 1 by definition when the mean is 0

  friend bool operator==(const BalanceQuality&, const BalanceQuality&) = default;
};

/// Of k sums; all zeros (and max_over_mean 1) for none.
[[nodiscard]] BalanceQuality balance_quality(std::span<const Cost> sums);

/// How long groups take that ranks work through side by side.
struct GroupTiming {
  Cost overhead = 0;        ///< of every group beside its items' cost, in the same units
  std::int64_t stages = 1;  ///< of the pipeline that each group passes through
};

/// What a group costs before it has an item, where nothing is measured: an assumed 256 tokens' work.
/// overhead_cost_of (cost_fit.hpp) gives the measured figure.
[[nodiscard]] Cost default_overhead(const CostModel& model);

/// Of ranks that meet at every group: the sum over j of overhead + max over r of cost(r, j); and stages - 1
/// times the overhead and the largest cost of all, while the pipeline fills and drains. Lists may differ in
/// length; missing groups cost nothing.
[[nodiscard]] Cost estimated_time(std::span<const std::vector<Cost>> costs_of_ranks, GroupTiming timing);

}  // namespace evenkeel
