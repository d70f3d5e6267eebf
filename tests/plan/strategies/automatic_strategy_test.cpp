#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "base/id_range.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/branching_step.hpp"
#include "plan/micro_batches/micro_batch_layout.hpp"
#include "plan/pipeline/pipeline_schedule.hpp"
#include "plan/strategies/automatic.hpp"
#include "support/ids.hpp"
#include "support/made_up_table.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::made_up_table;
using testing_support::table_of;

PlanSettings open_settings(int dp, std::int64_t max_tokens, SyncPoint meet) {
  PlanSettings settings;
  settings.dp = dp;
  settings.balance.meet = meet;
  settings.micro_batch.max_tokens = max_tokens;
  return settings;
}

PlanSettings as_grid(PlanSettings settings) {
  settings.strategy = GridSettings{};
  return settings;
}

PlanSettings hierarchical(PlanSettings settings) {
  testing_support::use<PackedSettings>(settings).allow_grid = false;
  return settings;
}

TEST(AutomaticStrategy, chooses_the_strategy_that_ends_first) {
  const LengthTable table = made_up_table(400, 1);
  for (const SyncPoint meet : {SyncPoint::step, SyncPoint::micro_batch}) {
    const PlanSettings settings = open_settings(8, 128, meet);
    const StrategyChoice choice = choose_strategy({table, settings});
    EXPECT_EQ(choice.is_grid(), choice.grid_end < choice.hierarchical_end);
    EXPECT_EQ(plan_step({table, settings}),
              plan_step({table, choice.is_grid() ? as_grid(settings) : hierarchical(settings)}));
  }
}

TEST(AutomaticStrategy, is_a_grid_if_ranks_meet_at_every_micro_batch_and_lengths_vary) {
  const LengthTable table = made_up_table(400, 1);
  EXPECT_TRUE(choose_strategy({table, open_settings(8, 128, SyncPoint::micro_batch)}).is_grid());
}

RC_GTEST_PROP(AutomaticStrategy, ends_no_later_than_either_way, ()) {
  const LengthTable table = table_of(*rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(1, 60)));
  PlanSettings settings =
      open_settings(*rc::gen::inRange(1, 6), 64, *rc::gen::element(SyncPoint::step, SyncPoint::micro_batch));
  settings.mini_batches.count = *rc::gen::inRange(1, 3);
  const auto end_time_of = [&](const PlanSettings& of) {
    const StepPlan plan = plan_step({table, of});
    return end_time_without_bubbles(plan, settings) +
           settings.communication_cost().overhead * plan.num_micro_batches();
  };
  RC_ASSERT(end_time_of(settings) ==
            std::min(end_time_of(hierarchical(settings)), end_time_of(as_grid(settings))));
}

/// Returns two responses to a prompt of two tokens. A grid computes the prompt on both ranks, which ends
/// earlier.
testing_support::BranchingStep two_responses() {
  return testing_support::branching_step({{7, {1, 2, 3}, 2}, {7, {1, 2, 4, 5}, 2}});
}

TEST(AutomaticStrategy, keeps_the_units_that_its_grid_has_cut) {
  const testing_support::BranchingStep step = two_responses();
  for (const SyncPoint meet : {SyncPoint::step, SyncPoint::micro_batch}) {
    PlanSettings settings = open_settings(2, 64, meet);
    settings.sharing = PrefixSharing::trees;
    const AssignedPlan planned = assign_and_plan({step.table, settings, 0, step.trees});
    EXPECT_TRUE(planned.choice && planned.choice->is_grid());
    EXPECT_EQ(planned.assignment.units.size(), 2);
    EXPECT_EQ(planned.assignment.units.repeated(), (RepeatedTokens{0, 0, 0, 0, 2}));
  }
}

RC_GTEST_PROP(AutomaticStrategy, has_micro_batches_of_the_units_of_its_assignment, ()) {
  const testing_support::BranchingStep step = testing_support::any_branching_step();
  PlanSettings settings =
      open_settings(*rc::gen::inRange(1, 17), 1, *rc::gen::element(SyncPoint::step, SyncPoint::micro_batch));
  settings.sharing = *rc::gen::element(PrefixSharing::trees, PrefixSharing::prompts);
  settings.tp = *rc::gen::inRange(1, 4);
  settings.mini_batches.count = *rc::gen::inRange(1, 3);
  settings.micro_batch.max_tokens =
      align_up(std::ranges::max(step.table.sample_lengths()), settings.alignment()) *
      *rc::gen::inRange<std::int64_t>(1, 4);
  const StepProblem problem{step.table, settings, 0, step.trees};
  const AssignedPlan planned = assign_and_plan(problem);
  const PackUnits& units = planned.assignment.units;
  std::vector<EntryId> all;
  for (const DpRankPlan& rank : planned.plan.ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches) {
      std::vector<EntryId> entries;
      std::int64_t tokens = 0;
      for (const UnitId unit : m.units) {
        RC_ASSERT(unit < UnitId{units.size()});
        units.add_entries(unit, entries);
        tokens += units[unit].rows;
      }
      RC_ASSERT(m.entries == entries);
      RC_ASSERT(m.tokens == tokens);
      if (settings.sharing == PrefixSharing::trees && settings.alignment() == 1)
        RC_ASSERT(m.tokens == testing_support::distinct_tokens(step.trees, m.entries));
      all.insert(all.end(), entries.begin(), entries.end());
      if (!m.empty())
        RC_ASSERT(lay_out(problem, planned.assignment, m, CpRank{0}).layout.num_rows() == m.aligned_tokens);
    }
  }
  std::ranges::sort(all);
  RC_ASSERT(all == testing_support::all_ids<EntryId>(step.table.size()));
}

TEST(AutomaticStrategy, is_hierarchical_if_balance_meet_is_not_set) {
  const LengthTable table = made_up_table(100, 1);
  PlanSettings settings = open_settings(4, 128, SyncPoint::micro_batch);
  settings.balance.meet = std::nullopt;
  EXPECT_FALSE(compares_strategies(settings));
  EXPECT_EQ(plan_step({table, settings}), plan_step({table, hierarchical(settings)}));
}

TEST(AutomaticStrategy, is_hierarchical_if_a_grid_would_be_refused) {
  PlanSettings settings = open_settings(2, 9, SyncPoint::micro_batch);
  EXPECT_TRUE(compares_strategies(settings));
  settings.balance.speeds = {1000, 500};
  EXPECT_FALSE(compares_strategies(settings));
  EXPECT_EQ(plan_step({table_of({9, 1, 5, 5}), settings}),
            plan_step({table_of({9, 1, 5, 5}), hierarchical(settings)}));
}

}  // namespace
}  // namespace evenkeel
