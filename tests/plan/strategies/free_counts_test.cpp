#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <iterator>

#include "evenkeel/plan/step_plan.hpp"
#include "plan/pipeline/pipeline_schedule.hpp"
#include "plan/strategies/automatic.hpp"
#include "support/made_up_table.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing::UnorderedElementsAre;
using testing_support::table_of;

PlanSettings settings_with(bool free_counts, int dp, std::int64_t max_tokens) {
  PlanSettings settings;
  settings.dp = dp;
  settings.balance.cost = CostModel{1, 1};
  settings.balance.meet = SyncPoint::step;
  settings.balance.overhead = 20;
  settings.micro_batch.max_tokens = max_tokens;
  auto& packed = testing_support::use<PackedSettings>(settings);
  packed.free_counts = free_counts;
  packed.allow_grid = false;
  return settings;
}

std::vector<std::size_t> counts_of(const StepPlan& plan) {
  std::vector<std::size_t> sizes;
  for (const DpRankPlan& rank : plan.ranks) sizes.push_back(rank.micro_batches.size());
  return sizes;
}

Cost end_time_of(const LengthTable& table, const PlanSettings& settings) {
  return end_time_without_bubbles(plan_step({table, settings}), settings, *settings.balance.overhead);
}

// One sample of 30 tokens costs 930; each of 60 samples of 4 tokens costs 20.
TEST(FreeCounts, give_each_rank_the_number_of_micro_batches_it_needs) {
  std::vector<std::int64_t> lengths(60, 4);
  lengths.push_back(30);
  const LengthTable table = table_of(lengths);
  const StepPlan equal = plan_step({table, settings_with(false, 2, 32)});
  EXPECT_EQ(counts_of(equal), std::vector<std::size_t>(2, 7));
  const StepPlan free = plan_step({table, settings_with(true, 2, 32)});
  EXPECT_THAT(counts_of(free), UnorderedElementsAre(3, 7));
  EXPECT_EQ(free.num_micro_batches(), 7);
  EXPECT_LT(end_time_of(table, settings_with(true, 2, 32)), end_time_of(table, settings_with(false, 2, 32)));
}

TEST(FreeCounts, a_rank_without_samples_has_one_empty_micro_batch) {
  const StepPlan plan = plan_step({table_of({30}), settings_with(true, 2, 32)});
  EXPECT_EQ(counts_of(plan), std::vector<std::size_t>(2, 1));
  EXPECT_TRUE(std::ranges::any_of(plan.ranks,
                                  [](const DpRankPlan& rank) { return rank.micro_batches.front().empty(); }));
}

TEST(FreeCounts, each_count_is_a_multiple_and_at_least_the_minimum) {
  PlanSettings settings = settings_with(true, 3, 48);
  settings.micro_batch.min_count = 3;
  settings.micro_batch.multiple_of = 2;
  for (const std::size_t count : counts_of(plan_step({testing_support::made_up_table(60, 1), settings}))) {
    EXPECT_GE(count, 4);
    EXPECT_EQ(count % 2, 0);
  }
}

// The work is the squared length. On two ranks, one column takes 89 under the cap, and two columns take 73.
TEST(FastestGrids, have_more_columns_if_these_save_more_than_their_overhead) {
  const LengthTable table = table_of({8, 5, 3, 3, 3, 3, 1});
  PlanSettings settings = settings_with(false, 2, 13);
  settings.balance.meet = SyncPoint::micro_batch;
  settings.balance.cost = CostModel{0, 1};
  const auto columns = [&](CountRule count, Cost overhead) {
    settings.balance.overhead = overhead;
    settings.strategy = GridSettings{count};
    return plan_step({table, settings}).num_micro_batches();
  };
  EXPECT_EQ(columns(CountRule::fewest, 1), 1);
  EXPECT_EQ(columns(CountRule::fastest, 1), 2);
  EXPECT_EQ(columns(CountRule::fastest, 100), 1);
}

RC_GTEST_PROP(FastestGrids, end_no_later_than_those_of_fewest_columns, ()) {
  const LengthTable table = table_of(*rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(1, 60)));
  PlanSettings settings = settings_with(false, *rc::gen::inRange(1, 6), 64);
  settings.balance.meet = SyncPoint::micro_batch;
  settings.balance.overhead = *rc::gen::inRange<Cost>(0, 200);
  settings.strategy = GridSettings{};
  const Cost fewest = end_time_of(table, settings);
  settings.strategy = GridSettings{CountRule::fastest};
  RC_ASSERT(end_time_of(table, settings) <= fewest);
}

// First-fit-decreasing needs a bin more than the search that packs micro-batches, so it misjudged both plans.
TEST(FreeCounts, end_no_later_than_equal_counts_if_packing_saves_a_micro_batch) {
  const LengthTable table = table_of({29, 23, 20, 26, 15, 20, 14, 26, 22, 4, 8, 31, 31, 16, 24, 11, 39, 18});
  PlanSettings free = settings_with(true, 2, 64);
  free.balance.overhead = 3;
  PlanSettings equal = free;
  testing_support::use<PackedSettings>(equal).free_counts = false;
  EXPECT_LE(end_time_of(table, free), end_time_of(table, equal));
}

RC_GTEST_PROP(FreeCounts, never_end_later_than_equal_counts_nor_than_a_grid, ()) {
  const LengthTable table = table_of(*rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(1, 60)));
  PlanSettings free = settings_with(true, *rc::gen::inRange(1, 6), 64);
  free.balance.overhead = *rc::gen::inRange<Cost>(0, 3000);
  PlanSettings equal = free;
  testing_support::use<PackedSettings>(equal).free_counts = false;
  RC_ASSERT(end_time_of(table, free) <= end_time_of(table, equal));
  PlanSettings open = free;
  testing_support::use<PackedSettings>(open).allow_grid = true;
  const StrategyChoice choice = choose_strategy({table, open});
  RC_ASSERT(choice.hierarchical_end == end_time_of(table, free));
  RC_ASSERT(end_time_of(table, open) == std::min(choice.hierarchical_end, choice.grid_end));
}

}  // namespace
}  // namespace evenkeel
