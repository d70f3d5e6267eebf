#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>

#include "plan/assign/dp_rank_plans.hpp"
#include "support/made_up_table.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

using testing::ElementsAre;
using testing_support::table_of;

/// The example in the header: with contiguous runs, the second rank gets twice as many samples of half the
/// length.
const LengthTable nine_samples = table_of({4, 4, 4, 2, 2, 2, 2, 2, 2});

PlanSettings loose(Cost overhead) {
  PlanSettings settings;
  settings.dp = 2;
  settings.micro_batch.max_tokens = 8;
  use<PackedSettings>(settings).count = CountRule::fastest;
  settings.balance.overhead = overhead;
  return settings;
}

/// Returns the counts for a step in which the first rank has the long samples.
std::vector<std::int64_t> chosen_counts(const PlanSettings& settings) {
  const StepProblem problem{nine_samples, settings};
  StepAssignment assignment = assign_step(problem);
  assignment.mini_batches[0].units = IdGroups<UnitId>(Partition({0, 1, 2, 3, 4, 5, 6, 7, 8}, {0, 3, 9}));
  const std::array ranks{DpRank{0}, DpRank{1}};
  PlanningPeers nobody;
  return plan_dp_ranks(problem, assignment, ranks, nobody).counts;
}

TEST(FastestCounts, add_micro_batches_while_balance_outweighs_overhead) {
  for (const Cost overhead : {0, 1, 2, 3})
    EXPECT_THAT(chosen_counts(loose(overhead)), ElementsAre(overhead < 2 ? 3 : 2)) << overhead;
}

TEST(FastestCounts, are_multiples_if_a_pipeline_needs_them) {
  PlanSettings settings = loose(0);
  settings.micro_batch.multiple_of = 2;
  EXPECT_EQ(chosen_counts(settings)[0] % 2, 0);
}

// The second rank also has 12 tokens. At half the speed, they take 24, with two micro-batches as well as with
// three.
TEST(FastestCounts, use_the_time_of_a_slow_rank) {
  PlanSettings settings = loose(1);
  EXPECT_THAT(chosen_counts(settings), ElementsAre(3));
  settings.balance.speeds = {1000, 250};
  EXPECT_THAT(chosen_counts(settings), ElementsAre(2));
}

RC_GTEST_PROP(FastestCounts, never_break_the_cap_nor_fall_below_the_fewest, ()) {
  const LengthTable table =
      table_of(*rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 61)));
  PlanSettings settings = loose(*rc::gen::inRange<Cost>(0, 50));
  settings.dp = *rc::gen::inRange(1, 5);
  settings.micro_batch.max_tokens = *rc::gen::inRange<std::int64_t>(60, 300);
  settings.micro_batch.min_count = *rc::gen::inRange<std::int64_t>(1, 4);
  settings.mini_batches.count = *rc::gen::inRange<std::int64_t>(1, 4);
  settings.pp = *rc::gen::inRange(1, 4);
  const StepPlan plan = plan_step({table, settings});
  use<PackedSettings>(settings).count = CountRule::fewest;
  RC_ASSERT(plan.num_micro_batches() >= plan_step({table, settings}).num_micro_batches());
  std::int64_t samples = 0;
  for (const DpRankPlan& rank : plan.ranks) {
    RC_ASSERT(std::ssize(rank.micro_batches) == plan.num_micro_batches());
    for (const MicroBatchPlan& m : rank.micro_batches) {
      RC_ASSERT(m.aligned_tokens <= settings.micro_batch.max_tokens);
      samples += std::ssize(m.entries);
    }
  }
  RC_ASSERT(samples == table.size());
}

}  // namespace
}  // namespace evenkeel
