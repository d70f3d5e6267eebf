#include "plan/pipeline/pipeline_schedule.hpp"

#include <gtest/gtest.h>

#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

PlanSettings of_stages(int pp, int dp) {
  PlanSettings settings;
  settings.pp = pp;
  settings.dp = dp;
  return settings;
}

/// Returns a plan that has only costs: one list per DP rank, divided into mini-batches of `count`
/// micro-batches.
StepPlan plan_of(const std::vector<std::vector<Cost>>& costs, std::size_t count) {
  StepPlan plan;
  plan.counts.assign(costs.front().size() / count, static_cast<std::int64_t>(count));
  for (const std::vector<Cost>& of_rank : costs) {
    DpRankPlan& rank = plan.ranks.emplace_back();
    for (std::size_t at = 0; at < of_rank.size(); ++at) {
      MicroBatchPlan& m = rank.micro_batches.emplace_back();
      m.cost = of_rank[at];
      m.mini_batch = MiniBatchId{static_cast<std::int64_t>(at / count)};
    }
  }
  return plan;
}

TEST(SimulatedStep, needs_a_pipeline_that_is_not_too_long_to_simulate) {
  const StepPlan plan = plan_of({{3, 2, 4}}, 3);
  EXPECT_FALSE(simulate_step(plan, of_stages(1, 1)));
  EXPECT_TRUE(simulate_step(plan, of_stages(2, 1)));
  PlanSettings long_one = of_stages(1 << 20, 1);
  long_one.vpp = 1 << 20;
  EXPECT_FALSE(simulate_step(plan, long_one));
}

// Three equal micro-batches on two stages take as long as four micro-batches on one stage.
TEST(SimulatedStep, has_the_bubble_of_equal_micro_batches) {
  const auto step = simulate_step(plan_of({{10, 10, 10}}, 3), of_stages(2, 1));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->end, 20);
  EXPECT_DOUBLE_EQ(step->bubble, 0.25);
}

TEST(SimulatedStep, takes_as_long_as_the_slowest_dp_rank_of_each_mini_batch) {
  const auto step = simulate_step(plan_of({{10, 10, 2, 2}, {4, 4, 20, 20}}, 2), of_stages(2, 2));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->end, 15 + 30);
  EXPECT_DOUBLE_EQ(step->bubble, 1.0 / 3);
}

TEST(SimulatedStep, counts_the_time_of_slow_dp_ranks) {
  PlanSettings settings = of_stages(2, 2);
  settings.balance.speeds = {1000, 500};
  const auto step = simulate_step(plan_of({{10, 10}, {8, 8}}, 2), settings);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->end, 12);
}

TEST(SimulatedStep, takes_the_longest_time_of_each_wave_if_ranks_meet) {
  PlanSettings settings = of_stages(2, 2);
  settings.strategy = GridSettings{};
  const auto step = simulate_step(plan_of({{10, 1}, {2, 10}}, 2), settings);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->end, 15);
}

TEST(SimulatedStep, takes_no_time_without_work) {
  EXPECT_EQ(simulate_step(plan_of({{0, 0}}, 2), of_stages(2, 1)), (SimulatedStep{0, 0}));
}

/// Returns settings for everything that `schedule` orders: micro-batches of DP ranks, columns of a grid,
/// waves.
std::vector<PlanSettings> with_orders_of_all_kinds(int pp, int dp) {
  std::vector<PlanSettings> kinds(3, of_stages(pp, dp));
  kinds[1].strategy = GridSettings{};
  kinds[2].strategy = ContextWavesSettings{2};
  return kinds;
}

TEST(SimulatedStep, ends_no_later_by_schedule_than_in_any_other_order) {
  const LengthTable table = testing_support::made_up_table(200, 7, 60);
  for (PlanSettings settings : with_orders_of_all_kinds(4, 3)) {
    for (const int vpp : {1, 2}) {
      settings.vpp = vpp;
      settings.balance.cost = {1, 1, 0};
      settings.micro_batch.max_tokens = 200;
      settings.mini_batches.count = 2;
      settings.micro_batch.order = MicroBatchOrder::schedule;
      const auto by_schedule = simulate_step(plan_step({table, settings}), settings);
      ASSERT_TRUE(by_schedule);
      for (const auto order : {MicroBatchOrder::pipeline, MicroBatchOrder::plan, MicroBatchOrder::cost}) {
        settings.micro_batch.order = order;
        EXPECT_LE(by_schedule->end, simulate_step(plan_step({table, settings}), settings)->end);
      }
    }
  }
}

}  // namespace
}  // namespace evenkeel
