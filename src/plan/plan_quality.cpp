#include "evenkeel/plan/plan_quality.hpp"

#include <algorithm>
#include <numeric>

namespace evenkeel {

StepBalance step_balance(std::span<const std::vector<Cost>> micro_batch_costs) {
  std::vector<Cost> totals;
  std::vector<Cost> singles;
  std::vector<Cost> dearest;
  for (const std::vector<Cost>& costs : micro_batch_costs) {
    totals.push_back(std::accumulate(costs.begin(), costs.end(), Cost{0}));
    std::ranges::copy_if(costs, std::back_inserter(singles), [](Cost cost) { return cost > 0; });
    dearest.resize(std::max(dearest.size(), costs.size()));
    for (std::size_t j = 0; j < costs.size(); ++j) dearest[j] = std::max(dearest[j], costs[j]);
  }
  const BalanceQuality dp = balance_quality(totals);
  StepBalance balance;
  balance.dp_max_over_mean = dp.max_over_mean;
  balance.micro_batch_max_over_mean = balance_quality(singles).max_over_mean;
  const auto meeting = static_cast<double>(std::accumulate(dearest.begin(), dearest.end(), Cost{0}));
  if (dp.mean > 0) balance.step_max_over_mean = meeting / dp.mean;
  return balance;
}

StepBalance step_balance(const StepPlan& plan) {
  std::vector<std::vector<Cost>> costs;
  for (const DpRankPlan& rank : plan.ranks) {
    std::vector<Cost>& of_rank = costs.emplace_back();
    for (const MicroBatchPlan& m : rank.micro_batches) of_rank.push_back(m.cost);
  }
  return step_balance(costs);
}

StepWaiting step_waiting(const StepBalance& balance) noexcept {
  return {1 - 1 / balance.dp_max_over_mean, 1 - 1 / balance.step_max_over_mean};
}

}  // namespace evenkeel
