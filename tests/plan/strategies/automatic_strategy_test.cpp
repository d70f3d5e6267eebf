#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "evenkeel/plan/step_plan.hpp"
#include "plan/pipeline/simulated_step.hpp"
#include "plan/strategies/automatic.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing_support::made_up_table;
using testing_support::table_of;

PlanSettings open_settings(int dp, std::int64_t max_tokens, Meeting meet) {
  PlanSettings settings;
  settings.dp = dp;
  settings.balance.meet = meet;
  settings.micro_batch.max_tokens = max_tokens;
  return settings;
}

PlanSettings with(PlanSettings settings, Strategy strategy) {
  settings.balance.strategy = strategy;
  return settings;
}

TEST(AutomaticStrategy, takes_the_way_in_which_the_step_ends_first) {
  const LengthTable table = made_up_table(400, 1);
  for (const Meeting meet : {Meeting::once_a_step, Meeting::every_micro_batch}) {
    const PlanSettings settings = open_settings(8, 128, meet);
    const StrategyChoice choice = choose_strategy({table, settings});
    EXPECT_EQ(choice.strategy == Strategy::grid, choice.grid_end < choice.hierarchical_end);
    EXPECT_EQ(plan_step({table, settings}), plan_step({table, with(settings, choice.strategy)}));
  }
}

TEST(AutomaticStrategy, is_a_grid_where_ranks_meet_at_every_micro_batch_and_lengths_vary) {
  const LengthTable table = made_up_table(400, 1);
  EXPECT_EQ(choose_strategy({table, open_settings(8, 128, Meeting::every_micro_batch)}).strategy,
            Strategy::grid);
}

RC_GTEST_PROP(AutomaticStrategy, ends_no_later_than_either_way, ()) {
  const LengthTable table = table_of(*rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(1, 60)));
  PlanSettings settings = open_settings(*rc::gen::inRange(1, 6), 64,
                                        *rc::gen::element(Meeting::once_a_step, Meeting::every_micro_batch));
  settings.mini_batches.count = *rc::gen::inRange(1, 3);
  const auto end_of = [&](const PlanSettings& of) {
    const StepPlan plan = plan_step({table, of});
    return planned_end(plan, settings) + settings.communication_cost().overhead * plan.num_micro_batches();
  };
  RC_ASSERT(end_of(settings) ==
            std::min(end_of(with(settings, Strategy::hierarchical)), end_of(with(settings, Strategy::grid))));
}

TEST(AutomaticStrategy, is_hierarchical_where_nobody_said_how_ranks_meet) {
  const LengthTable table = made_up_table(100, 1);
  PlanSettings settings = open_settings(4, 128, Meeting::every_micro_batch);
  settings.balance.meet = std::nullopt;
  EXPECT_FALSE(is_strategy_open(settings));
  EXPECT_EQ(plan_step({table, settings}), plan_step({table, with(settings, Strategy::hierarchical)}));
}

TEST(AutomaticStrategy, is_hierarchical_where_a_grid_would_be_refused) {
  PlanSettings settings = open_settings(2, 9, Meeting::every_micro_batch);
  EXPECT_TRUE(is_strategy_open(settings));
  settings.balance.speeds = {1000, 500};
  EXPECT_FALSE(is_strategy_open(settings));
  EXPECT_EQ(plan_step({table_of({9, 1, 5, 5}), settings}),
            plan_step({table_of({9, 1, 5, 5}), with(settings, Strategy::hierarchical)}));
}

}  // namespace
}  // namespace evenkeel
