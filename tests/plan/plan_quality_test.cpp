#include "evenkeel/plan/plan_quality.hpp"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using Costs = std::vector<std::vector<Cost>>;

TEST(StepWaiting, is_what_an_average_rank_waits_for_the_slowest) {
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

}  // namespace
}  // namespace evenkeel
