#include "evenkeel/plan/plan_quality.hpp"

#include <algorithm>
#include <numeric>

namespace evenkeel {
namespace {

double speed_of(std::span<const std::int64_t> speeds, std::size_t rank) {
  return speeds.empty() ? 1 : static_cast<double>(speeds[rank]);
}

double mean_of(std::span<const double> times) {
  if (times.empty()) return 0;
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

double max_over_mean_of(std::span<const double> times) {
  const double mean = mean_of(times);
  return mean > 0 ? std::ranges::max(times) / mean : 1;
}

}  // namespace

double max_over_mean(std::span<const Cost> work, std::span<const std::int64_t> speeds) {
  std::vector<double> times;
  for (std::size_t r = 0; r < work.size(); ++r)
    times.push_back(static_cast<double>(work[r]) / speed_of(speeds, r));
  return max_over_mean_of(times);
}

StepBalance step_balance(std::span<const std::vector<Cost>> micro_batch_costs,
                         std::span<const std::int64_t> speeds) {
  std::vector<double> totals;
  std::vector<double> singles;
  std::vector<double> longest;
  for (std::size_t r = 0; r < micro_batch_costs.size(); ++r) {
    const std::vector<Cost>& costs = micro_batch_costs[r];
    const double speed = speed_of(speeds, r);
    totals.push_back(static_cast<double>(std::accumulate(costs.begin(), costs.end(), Cost{0})) / speed);
    longest.resize(std::max(longest.size(), costs.size()));
    for (std::size_t j = 0; j < costs.size(); ++j) {
      const double time = static_cast<double>(costs[j]) / speed;
      if (costs[j] > 0) singles.push_back(time);
      longest[j] = std::max(longest[j], time);
    }
  }
  StepBalance balance;
  balance.dp_max_over_mean = max_over_mean_of(totals);
  balance.micro_batch_max_over_mean = max_over_mean_of(singles);
  const double mean = mean_of(totals);
  if (mean > 0) balance.step_max_over_mean = std::accumulate(longest.begin(), longest.end(), 0.0) / mean;
  return balance;
}

StepBalance step_balance(const StepPlan& plan, std::span<const std::int64_t> speeds) {
  std::vector<std::vector<Cost>> costs;
  for (const DpRankPlan& rank : plan.ranks) {
    std::vector<Cost>& of_rank = costs.emplace_back();
    for (const MicroBatchPlan& m : rank.micro_batches) of_rank.push_back(m.cost);
  }
  return step_balance(costs, speeds);
}

StepWaiting step_waiting(const StepBalance& balance) noexcept {
  return {1 - 1 / balance.dp_max_over_mean, 1 - 1 / balance.step_max_over_mean};
}

}  // namespace evenkeel
