#include "evenkeel/plan/fastest_count.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "evenkeel/plan/step_plan.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::table_of;

/// The header's example: contiguous runs give the second rank twice as many samples of half the length.
const LengthTable nine_samples = table_of({4, 4, 4, 2, 2, 2, 2, 2, 2});

PlanSettings loose(Cost overhead) {
  PlanSettings settings;
  settings.dp = 2;
  settings.micro_batch.max_tokens = 8;
  settings.micro_batch.count = CountRule::fastest;
  settings.overhead = overhead;
  return settings;
}

/// `nine_samples` dealt as the example has it.
DealtStep dealt_by_length(const PlanSettings& settings) {
  DealtStep dealt = deal_step(nine_samples, settings, 0);
  dealt.shares = Partition(std::vector<std::vector<Item>>{{0, 1, 2}, {3, 4, 5, 6, 7, 8}});
  dealt.mini_batches[0].shares = dealt.shares;
  return dealt;
}

std::vector<Cost> slowest_of(const DealtStep& dealt, std::span<const std::int64_t> fewest,
                             const PlanSettings& settings) {
  std::vector<Cost> slowest = times_at_counts(nine_samples, dealt, DpRank{0}, fewest, settings);
  const std::vector<Cost> other = times_at_counts(nine_samples, dealt, DpRank{1}, fewest, settings);
  for (std::size_t i = 0; i < slowest.size(); ++i) slowest[i] = std::max(slowest[i], other[i]);
  return slowest;
}

TEST(FastestCounts, take_more_micro_batches_while_evenness_outweighs_their_overhead) {
  const std::vector<std::int64_t> fewest{2};
  for (const Cost overhead : {0, 1, 2, 3}) {
    const PlanSettings settings = loose(overhead);
    const std::vector<Cost> slowest = slowest_of(dealt_by_length(settings), fewest, settings);
    EXPECT_THAT(fastest_counts(slowest, fewest, settings), ElementsAre(overhead < 2 ? 3 : 2)) << overhead;
  }
}

TEST(FastestCounts, are_multiples_where_a_pipeline_needs_them) {
  PlanSettings settings = loose(0);
  settings.micro_batch.multiple_of = 2;
  const std::vector<std::int64_t> fewest{2};
  const std::vector<Cost> slowest = slowest_of(dealt_by_length(settings), fewest, settings);
  EXPECT_EQ(slowest.size(), 2U + 4 + 6 + 8 + 10 + 12 + 14 + 16);
  EXPECT_EQ(fastest_counts(slowest, fewest, settings)[0] % 2, 0);
}

TEST(TimesAtCounts, are_of_the_slowest_ranks_clock) {
  PlanSettings settings = loose(0);
  settings.balance.speeds = {1000, 500};
  const DealtStep dealt = dealt_by_length(settings);
  const std::vector<std::int64_t> fewest{2};
  const std::vector<Cost> fast = times_at_counts(nine_samples, dealt, DpRank{0}, fewest, settings);
  const std::vector<Cost> slow = times_at_counts(nine_samples, dealt, DpRank{1}, fewest, settings);
  EXPECT_THAT(std::vector<Cost>(fast.begin(), fast.begin() + 2), ElementsAre(4, 2));
  EXPECT_THAT(std::vector<Cost>(slow.begin(), slow.begin() + 2), ElementsAre(6, 6));
}

TEST(TimesAtCounts, of_each_mini_batch_come_one_after_the_other) {
  PlanSettings settings = loose(0);
  settings.mini_batches.count = 2;
  const DealtStep dealt = deal_step(nine_samples, settings, 0);
  const std::vector<std::int64_t> fewest{1, 3};
  EXPECT_EQ(times_at_counts(nine_samples, dealt, DpRank{1}, fewest, settings).size(), 36U + 52U);
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
  const StepPlan plan = plan_step(table, settings);
  settings.micro_batch.count = CountRule::fewest;
  RC_ASSERT(plan.num_micro_batches >= plan_step(table, settings).num_micro_batches);
  std::int64_t samples = 0;
  for (const DpRankPlan& rank : plan.ranks) {
    RC_ASSERT(std::ssize(rank.micro_batches) == plan.num_micro_batches);
    for (const MicroBatchPlan& m : rank.micro_batches) {
      RC_ASSERT(m.aligned_tokens <= settings.micro_batch.max_tokens);
      samples += std::ssize(m.entries);
    }
  }
  RC_ASSERT(samples == table.size());
}

}  // namespace
}  // namespace evenkeel
