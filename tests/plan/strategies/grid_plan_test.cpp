#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "support/ids.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::all_ids;
using testing_support::ids;
using testing_support::made_up_table;
using testing_support::table_of;

PlanSettings grid_settings(int dp, std::int64_t max_tokens) {
  PlanSettings settings;
  settings.dp = dp;
  settings.strategy = GridSettings{};
  settings.micro_batch.max_tokens = max_tokens;
  settings.micro_batch.order = MicroBatchOrder::plan;
  return settings;
}

std::vector<std::vector<Cost>> costs_of(const StepPlan& plan) {
  std::vector<std::vector<Cost>> costs;
  for (const DpRankPlan& rank : plan.ranks) {
    std::vector<Cost>& of_rank = costs.emplace_back();
    for (const MicroBatchPlan& m : rank.micro_batches) of_rank.push_back(m.cost);
  }
  return costs;
}

TEST(GridPlan, the_ranks_j_th_micro_batches_cost_nearly_the_same) {
  // Planned per rank, 9 + 1 and 5 + 5 have equal totals, but the ranks would wait at both micro-batches.
  const StepPlan plan = plan_step({table_of({9, 1, 5, 5}), grid_settings(2, 9)});
  EXPECT_THAT(costs_of(plan), ElementsAre(ElementsAre(9, 1), ElementsAre(5, 5)));
  const StepPlan even = plan_step({table_of({9, 1, 9, 1}), grid_settings(2, 9)});
  EXPECT_THAT(costs_of(even), ElementsAre(ElementsAre(9, 1), ElementsAre(9, 1)));
}

TEST(GridPlan, packing_the_whole_step_takes_fewer_micro_batches_than_rank_by_rank) {
  // Six samples of 4 and one of 2 fill seven halves of a cap of 8: four cells, two per rank.
  const StepPlan plan = plan_step({table_of({4, 4, 4, 4, 4, 4, 2}), grid_settings(2, 8)});
  EXPECT_EQ(plan.ranks[0].lower_bound, 2);
  EXPECT_EQ(plan.num_micro_batches(), 2);
}

TEST(GridPlan, the_count_is_a_multiple_and_at_least_the_minimum) {
  PlanSettings settings = grid_settings(2, 8);
  settings.micro_batch.min_count = 3;
  EXPECT_EQ(plan_step({table_of({4, 4}), settings}).num_micro_batches(), 3);
  settings.micro_batch.multiple_of = 4;
  EXPECT_EQ(plan_step({table_of({4, 4}), settings}).num_micro_batches(), 4);
  EXPECT_EQ(plan_step({table_of({}), settings}).num_micro_batches(), 4);
}

TEST(GridPlan, pipeline_order_is_that_of_whole_columns) {
  PlanSettings settings = grid_settings(2, 9);
  const LengthTable table = table_of({9, 9, 8, 8, 7, 7, 6, 6, 5, 5});
  EXPECT_THAT(costs_of(plan_step({table, settings})), testing::Each(ElementsAre(9, 8, 7, 6, 5)));
  settings.micro_batch.order = MicroBatchOrder::pipeline;
  EXPECT_THAT(costs_of(plan_step({table, settings})), testing::Each(ElementsAre(5, 7, 9, 8, 6)));
}

TEST(GridPlan, micro_batches_count_true_and_aligned_tokens_and_cost) {
  PlanSettings settings = grid_settings(1, 8);
  settings.align_lcm = 4;
  settings.balance.cost = CostModel{2, 1};
  const StepPlan plan = plan_step({table_of({3, 2}), settings});
  EXPECT_THAT(plan.ranks[0].micro_batches, ElementsAre(MicroBatchPlan{ids<EntryId>({0, 1}), 5, 8, 15 + 8}));
}

TEST(GridPlan, a_sample_above_the_cap_is_the_same_error_as_elsewhere) {
  EXPECT_THROW((void)plan_step({table_of({9}), grid_settings(2, 8)}), LimitError);
}

RC_GTEST_PROP(GridPlan, delivers_every_sample_once_under_the_limits, ()) {
  PlanSettings settings = grid_settings(*rc::gen::inRange(1, 7), *rc::gen::inRange<std::int64_t>(64, 200));
  settings.balance.cost = *rc::gen::element(CostModel::tokens(), CostModel::flops_7b());
  settings.tp = *rc::gen::inRange(1, 5);
  settings.pp = *rc::gen::inRange(1, 4);
  settings.micro_batch.order =
      *rc::gen::element(MicroBatchOrder::pipeline, MicroBatchOrder::cost, MicroBatchOrder::schedule);
  if (*rc::gen::arbitrary<bool>()) settings.micro_batch.max_samples = *rc::gen::inRange<std::int64_t>(1, 4);
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 60), 3);
  const StepPlan plan = plan_step({table, settings});
  RC_ASSERT(plan.ranks.size() == static_cast<std::size_t>(settings.dp));
  std::vector<EntryId> entries;
  for (const DpRankPlan& rank : plan.ranks) {
    RC_ASSERT(static_cast<std::int64_t>(rank.micro_batches.size()) == plan.num_micro_batches());
    for (const MicroBatchPlan& m : rank.micro_batches) {
      RC_ASSERT(m.aligned_tokens <= settings.micro_batch.max_tokens);
      RC_ASSERT(static_cast<std::int64_t>(m.entries.size()) <= settings.limits().max_items);
      RC_ASSERT(std::ranges::is_sorted(m.entries));
      entries.insert(entries.end(), m.entries.begin(), m.entries.end());
    }
  }
  std::ranges::sort(entries);
  RC_ASSERT(entries == all_ids<EntryId>(table.size()));
  RC_ASSERT(plan == plan_step({table, settings}));
  const StepWaiting waiting = step_waiting(step_balance(costs_of(plan)));
  RC_ASSERT(waiting.every_micro_batch >= waiting.once - 1e-12);
}

}  // namespace
}  // namespace evenkeel
