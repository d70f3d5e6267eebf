#include "evenkeel/plan/step_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <boost/archive/binary_iarchive.hpp>
#include <boost/archive/binary_oarchive.hpp>
#include <sstream>

#include "balance/quality.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/plan_serialization.hpp"
#include "support/assigned_samples.hpp"
#include "support/ids.hpp"
#include "support/made_up_table.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

using testing_support::all_ids;
using testing_support::made_up_table;
using testing_support::samples_to_dp_ranks;
using testing_support::table_of;

std::vector<EntryId> delivered_entries(const StepPlan& plan) {
  std::vector<EntryId> entries;
  for (const DpRankPlan& rank : plan.ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches)
      entries.insert(entries.end(), m.entries.begin(), m.entries.end());
  }
  std::ranges::sort(entries);
  return entries;
}

StrategySettings strategy_drawn(MicroBatchMode mode, const AssignmentSettings& assignment) {
  if (mode == MicroBatchMode::padded)
    return PaddedSettings{assignment, *rc::gen::inRange<std::int64_t>(1, 20)};
  if (mode == MicroBatchMode::fixed)
    return FixedSettings{assignment, *rc::gen::inRange<std::int64_t>(1, 9), *rc::gen::arbitrary<bool>()};
  PackedSettings packed{assignment};
  if (*rc::gen::arbitrary<bool>()) {
    packed.packing = *rc::gen::element(BinPacking::first_fit_decreasing, BinPacking::best_fit_decreasing,
                                       BinPacking::modified_first_fit_decreasing);
  }
  return packed;
}

PlanSettings any_settings() {
  PlanSettings settings;
  settings.dp = *rc::gen::inRange(1, 9);
  settings.tp = *rc::gen::inRange(1, 4);
  settings.pp = *rc::gen::inRange(1, 4);
  settings.vpp = *rc::gen::inRange(1, 3);
  settings.cp = {*rc::gen::inRange(1, 5), *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
  settings.align_lcm = *rc::gen::element<std::int64_t>(1, 3, 16);
  AssignmentSettings assignment;
  assignment.algorithm =
      *rc::gen::element(BalanceAlgorithm::automatic, BalanceAlgorithm::karmarkar_karp, BalanceAlgorithm::lpt,
                        BalanceAlgorithm::sorted_stride, BalanceAlgorithm::none);
  settings.balance.cost = *rc::gen::element(CostModel::tokens(), CostModel::flops_7b());
  assignment.equal_count = *rc::gen::arbitrary<bool>();
  settings.micro_batch.order = *rc::gen::element(MicroBatchOrder::pipeline, MicroBatchOrder::plan,
                                                 MicroBatchOrder::cost, MicroBatchOrder::schedule);
  settings.micro_batch.min_count = *rc::gen::inRange<std::int64_t>(1, 6);
  if (*rc::gen::arbitrary<bool>()) settings.micro_batch.max_samples = *rc::gen::inRange<std::int64_t>(1, 5);
  const auto mode = *rc::gen::element(MicroBatchMode::packed, MicroBatchMode::padded, MicroBatchMode::fixed);
  const bool with_speeds = mode != MicroBatchMode::padded && *rc::gen::arbitrary<bool>();
  if (with_speeds) assignment = {};
  settings.strategy = strategy_drawn(mode, assignment);
  settings.mini_batches = {*rc::gen::inRange<std::int64_t>(1, 5), *rc::gen::arbitrary<bool>(),
                           *rc::gen::arbitrary<bool>()};
  if (with_speeds) {
    for (int r = 0; r < settings.dp; ++r)
      settings.balance.speeds.push_back(*rc::gen::inRange<std::int64_t>(1, 3000));
  }
  settings.micro_batch.max_tokens =
      align_up(60, settings.alignment()) + *rc::gen::inRange<std::int64_t>(0, 100);
  return settings;
}

LengthTable any_table() {
  return table_of(*rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 61)));
}

TEST(PlanHash, distinguishes_plans_with_equal_samples_per_rank) {
  const LengthTable table = table_of({5, 3, 4, 2});
  PlanSettings settings;
  settings.dp = 2;
  settings.micro_batch.max_tokens = 8;
  const StepPlan plan = plan_step({table, settings});
  EXPECT_EQ(plan_hash(plan), plan_hash(plan_step({table, settings})));
  StepPlan other = plan;
  std::ranges::reverse(other.ranks[0].micro_batches.front().entries);
  ASSERT_NE(other, plan);
  EXPECT_NE(plan_hash(other), plan_hash(plan));
  other = plan;
  std::swap(other.ranks[0], other.ranks[1]);
  EXPECT_NE(plan_hash(other), plan_hash(plan));
}

RC_GTEST_PROP(StepPlan, delivers_every_sample_exactly_once, ()) {
  const LengthTable table = any_table();
  RC_ASSERT(delivered_entries(plan_step({table, any_settings()})) == all_ids<EntryId>(table.size()));
}

RC_GTEST_PROP(StepPlan, never_breaks_the_cap_or_the_sample_limit, ()) {
  const LengthTable table = any_table();
  const PlanSettings settings = any_settings();
  for (const DpRankPlan& rank : plan_step({table, settings}).ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches) {
      std::int64_t aligned = 0;
      for (const EntryId entry : m.entries) {
        const std::int64_t alone = align_up(table[entry].shape.length(), settings.alignment());
        RC_ASSERT(m.padded_length == 0 || m.padded_length >= alone);
        aligned += m.padded_length == 0 ? alone : m.padded_length;
      }
      RC_ASSERT(m.aligned_tokens == aligned);
      RC_ASSERT(aligned <= settings.micro_batch.max_tokens);
      RC_ASSERT(static_cast<std::int64_t>(m.entries.size()) <=
                settings.micro_batch.max_samples.value_or(1 << 20));
      RC_ASSERT(settings.find<PackedSettings>() == nullptr || std::ranges::is_sorted(m.entries));
    }
  }
}

RC_GTEST_PROP(StepPlan, all_dp_ranks_have_the_agreed_number_of_micro_batches, ()) {
  const PlanSettings settings = any_settings();
  const StepPlan plan = plan_step({any_table(), settings});
  RC_ASSERT(plan.ranks.size() == static_cast<std::size_t>(settings.dp));
  std::int64_t needed = 1;
  for (const DpRankPlan& rank : plan.ranks) {
    RC_ASSERT(static_cast<std::int64_t>(rank.micro_batches.size()) == plan.num_micro_batches());
    RC_ASSERT(rank.lower_bound <= rank.needed);
    needed = std::max({needed, rank.needed, settings.micro_batch.min_count});
  }
  RC_ASSERT(plan.num_micro_batches() >= needed);
  if (settings.mini_batches.count == 1)
    RC_ASSERT(plan.num_micro_batches() < needed + settings.count_multiple());
  RC_ASSERT(plan.num_micro_batches() % settings.count_multiple() == 0);
}

RC_GTEST_PROP(StepPlan, equal_counts_differ_by_at_most_one_sample, ()) {
  PlanSettings settings = any_settings();
  use<PackedSettings>(settings).equal_count = true;
  settings.balance.speeds = {};
  use<PackedSettings>(settings).algorithm =
      *rc::gen::element(BalanceAlgorithm::karmarkar_karp, BalanceAlgorithm::lpt);
  const LengthTable table = any_table();
  const Partition assignment = samples_to_dp_ranks(table, settings);
  for (std::int64_t r = 0; r < assignment.size(); ++r) {
    const auto count = static_cast<std::int64_t>(assignment[r].size());
    RC_ASSERT(count >= table.size() / settings.dp);
    RC_ASSERT(count <= (table.size() + settings.dp - 1) / settings.dp);
  }
}

TEST(StepPlan, does_not_depend_on_owners) {
  PlanSettings settings;
  settings.dp = 4;
  settings.micro_batch.max_tokens = 200;
  const StepPlan plan = plan_step({made_up_table(100, 1), settings});
  for (const int owners : {2, 3, 7, 64}) EXPECT_EQ(plan_step({made_up_table(100, owners), settings}), plan);
}

TEST(StepPlan, without_samples_has_one_empty_micro_batch_per_rank) {
  PlanSettings settings;
  settings.dp = 3;
  const StepPlan plan = plan_step({{}, settings});
  EXPECT_EQ(plan.num_micro_batches(), 1);
  for (const DpRankPlan& rank : plan.ranks) EXPECT_TRUE(rank.micro_batches.at(0).empty());
}

TEST(StepPlan, fewer_samples_than_dp_ranks_leave_ranks_with_empty_micro_batches) {
  PlanSettings settings;
  settings.dp = 5;
  const StepPlan plan = plan_step({table_of({9, 4}), settings});
  EXPECT_EQ(plan.num_micro_batches(), 1);
  EXPECT_EQ(delivered_entries(plan), all_ids<EntryId>(2));
  EXPECT_EQ(std::ranges::count_if(plan.ranks, [](const DpRankPlan& r) { return r.tokens() == 0; }), 3);
}

TEST(StepPlan, is_far_more_even_than_source_order_on_long_tailed_lengths) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 256; ++i) lengths.push_back(i % 16 == 0 || i < 32 ? 900 + i : 30 + i % 50);
  PlanSettings settings;
  settings.dp = 8;
  const LengthTable table = table_of(lengths);
  EXPECT_GT(balance_quality(unbalanced_dp_costs(table, settings)).max_over_mean, 2.0);
  EXPECT_LT(step_balance(plan_step({table, settings})).dp_max_over_mean, 1.001);
}

TEST(StepPlan, a_sample_above_the_cap_is_an_error_before_anything_is_planned) {
  PlanSettings settings;
  settings.micro_batch.max_tokens = 10;
  EXPECT_THROW((void)plan_step({table_of({3, 11}), settings}), LimitError);
}

TEST(PlanHash, is_equal_only_for_equal_plans) {
  const IdGroups<EntryId> one(Partition({2, 0, 1}, {0, 2, 3}));
  const IdGroups<EntryId> other(Partition({2, 0, 1}, {0, 1, 3}));
  EXPECT_EQ(plan_hash(one, std::vector<std::int64_t>{4}),
            plan_hash(IdGroups<EntryId>(Partition({2, 0, 1}, {0, 2, 3})), std::vector<std::int64_t>{4}));
  EXPECT_NE(plan_hash(one, std::vector<std::int64_t>{4}), plan_hash(other, std::vector<std::int64_t>{4}));
  EXPECT_NE(plan_hash(one, std::vector<std::int64_t>{4}), plan_hash(one, std::vector<std::int64_t>{5}));
}

TEST(StepBalance, counts_waiting_ranks_at_every_micro_batch) {
  // Two ranks with equal totals but different costs at each of two micro-batches: one waits for the other
  // each time.
  const std::vector<std::vector<Cost>> costs{{30, 10}, {10, 30}};
  const StepBalance balance = step_balance(costs);
  EXPECT_DOUBLE_EQ(balance.dp_max_over_mean, 1.0);
  EXPECT_DOUBLE_EQ(balance.micro_batch_max_over_mean, 1.5);
  EXPECT_DOUBLE_EQ(balance.step_max_over_mean, 1.5);
}

TEST(StepBalance, empty_micro_batches_do_not_drag_the_mean_of_single_ones_down) {
  const StepBalance balance = step_balance(std::vector<std::vector<Cost>>{{10, 0}, {10, 0}});
  EXPECT_DOUBLE_EQ(balance.micro_batch_max_over_mean, 1.0);
  EXPECT_DOUBLE_EQ(step_balance(std::vector<std::vector<Cost>>{}).step_max_over_mean, 1.0);
}

TEST(PlanSerialization, a_plan_and_a_length_entry_come_back_equal) {
  PlanSettings settings;
  settings.dp = 3;
  const LengthTable table = made_up_table(20, 4);
  const StepPlan plan = plan_step({table, settings});
  const LengthEntry entry = table[EntryId{7}];
  std::stringstream bytes;
  {
    boost::archive::binary_oarchive archive(bytes);
    archive << plan << entry;
  }
  StepPlan plan_back;
  LengthEntry entry_back;
  boost::archive::binary_iarchive archive(bytes);
  archive >> plan_back >> entry_back;
  EXPECT_EQ(plan_back, plan);
  EXPECT_EQ(entry_back, entry);
}

}  // namespace
}  // namespace evenkeel
