#include "evenkeel/plan/step_plan.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>

#include "evenkeel/plan/fastest_count.hpp"

namespace evenkeel {
namespace {

template <typename Member>
std::int64_t sum_over(const std::vector<MicroBatchPlan>& micro_batches, Member member) {
  std::int64_t sum = 0;
  for (const MicroBatchPlan& m : micro_batches) sum += m.*member;
  return sum;
}

/// The largest of all DP ranks' times_at_counts.
std::vector<Cost> slowest_times(const LengthTable& table, const DealtStep& dealt,
                                std::span<const std::int64_t> fewest, const PlanSettings& settings) {
  std::vector<Cost> slowest;
  for (int r = 0; r < settings.dp; ++r) {
    const std::vector<Cost> times = times_at_counts(table, dealt, DpRank{r}, fewest, settings);
    slowest.resize(times.size(), 0);
    for (std::size_t i = 0; i < times.size(); ++i) slowest[i] = std::max(slowest[i], times[i]);
  }
  return slowest;
}

/// A plan that leaves samples out is a bug that nobody would see in its balance.
void require_all_planned(const LengthTable& table, const StepPlan& plan) {
  std::int64_t planned = 0;
  for (const DpRankPlan& rank : plan.ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches) planned += std::ssize(m.entries);
  }
  if (planned == table.size()) return;
  throw std::logic_error("planned " + std::to_string(planned) + " of " + std::to_string(table.size()) +
                         " samples");
}

}  // namespace

std::int64_t DpRankPlan::tokens() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::tokens);
}
std::int64_t DpRankPlan::aligned_tokens() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::aligned_tokens);
}
Cost DpRankPlan::cost() const noexcept {
  return sum_over(micro_batches, &MicroBatchPlan::cost);
}

std::vector<std::int64_t> agreed_counts(std::span<const std::int64_t> largest_needed,
                                        const PlanSettings& settings) {
  std::vector<std::int64_t> counts;
  for (const std::int64_t largest : largest_needed) counts.push_back(agreed_count(largest, settings));
  return counts;
}

DpRankPlan plan_dp_rank(const LengthTable& table, const DealtStep& dealt, DpRank rank,
                        std::span<const GroupCount> own, std::span<const std::int64_t> agreed,
                        const PlanSettings& settings) {
  DpRankPlan plan;
  for (std::size_t m = 0; m < agreed.size(); ++m) {
    plan.lower_bound += own[m].lower_bound;
    plan.needed += own[m].needed;
    std::ranges::move(plan_mini_batch(table, dealt, static_cast<std::int64_t>(m), rank, agreed[m], settings),
                      std::back_inserter(plan.micro_batches));
  }
  return plan;
}

StepPlan plan_step(const LengthTable& table, const PlanSettings& settings, std::int64_t step,
                   std::span<const SharedGroup> trees) {
  const DealtStep dealt = deal_step(table, settings, step, trees);
  std::vector<std::int64_t> largest(dealt.mini_batches.size(), 0);
  std::vector<std::vector<GroupCount>> counts;
  for (int r = 0; r < settings.dp; ++r) {
    counts.push_back(count_micro_batches(table, dealt, DpRank{r}, settings));
    for (std::size_t m = 0; m < largest.size(); ++m)
      largest[m] = std::max(largest[m], counts.back()[m].needed);
  }
  std::vector<std::int64_t> agreed = agreed_counts(largest, settings);
  if (settings.micro_batch.count == CountRule::fastest)
    agreed = fastest_counts(slowest_times(table, dealt, agreed, settings), agreed, settings);
  StepPlan plan;
  plan.num_micro_batches = std::accumulate(agreed.begin(), agreed.end(), std::int64_t{0});
  for (int r = 0; r < settings.dp; ++r) {
    plan.ranks.push_back(
        plan_dp_rank(table, dealt, DpRank{r}, counts[static_cast<std::size_t>(r)], agreed, settings));
  }
  require_all_planned(table, plan);
  return plan;
}

}  // namespace evenkeel
