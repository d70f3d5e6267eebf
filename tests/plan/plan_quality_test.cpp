#include "evenkeel/plan/plan_quality.hpp"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using Costs = std::vector<std::vector<Cost>>;

TEST(StepWaiting, is_the_mean_time_that_ranks_wait_for_the_slowest) {
  // Totals 4 and 8, mean 6; columns take 3 and 7.
  const StepWaiting waiting = step_waiting(step_balance(Costs{{3, 1}, {1, 7}}));
  EXPECT_DOUBLE_EQ(waiting.once, 1 - 6.0 / 8);
  EXPECT_DOUBLE_EQ(waiting.every_micro_batch, 1 - 6.0 / 10);
}

TEST(StepWaiting, ranks_with_equal_totals_wait_when_they_meet_more_often) {
  const StepWaiting waiting = step_waiting(step_balance(Costs{{3, 1}, {1, 3}}));
  EXPECT_DOUBLE_EQ(waiting.once, 0);
  EXPECT_DOUBLE_EQ(waiting.every_micro_batch, 1 - 4.0 / 6);
}

TEST(StepWaiting, nobody_waits_when_there_is_no_work) {
  EXPECT_EQ(step_waiting(step_balance(Costs{{0, 0}, {0, 0}})), StepWaiting{});
  EXPECT_EQ(step_waiting(step_balance(Costs{})), StepWaiting{});
}

TEST(StepBalance, measures_time_if_ranks_have_speeds) {
  // The second rank has half the speed: its 4 and 2 take 8 and 4.
  const std::vector<std::int64_t> speeds{1000, 500};
  const StepBalance balance = step_balance(Costs{{6, 6}, {4, 2}}, speeds);
  EXPECT_DOUBLE_EQ(balance.dp_max_over_mean, 1);
  EXPECT_DOUBLE_EQ(balance.micro_batch_max_over_mean, 8.0 / 6);
  EXPECT_DOUBLE_EQ(balance.step_max_over_mean, (8.0 + 6) / 12);
}

TEST(MaxOverMean, measures_time_if_ranks_have_speeds) {
  EXPECT_DOUBLE_EQ(max_over_mean(std::vector<Cost>{6, 3}), 6 / 4.5);
  EXPECT_DOUBLE_EQ(max_over_mean(std::vector<Cost>{6, 3}, std::vector<std::int64_t>{2, 1}), 1);
  EXPECT_DOUBLE_EQ(max_over_mean(std::vector<Cost>{6, 3}, std::vector<std::int64_t>{1, 2}), 6 / 3.75);
  EXPECT_DOUBLE_EQ(max_over_mean(std::vector<Cost>{0, 0}, std::vector<std::int64_t>{1, 2}), 1);
  EXPECT_DOUBLE_EQ(max_over_mean({}), 1);
}

}  // namespace
}  // namespace evenkeel
