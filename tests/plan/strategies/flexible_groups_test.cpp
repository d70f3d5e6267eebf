#include "plan/strategies/flexible_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/transfer/transfer_plan.hpp"
#include "support/ids.hpp"
#include "support/made_up_table.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::all_ids;
using testing_support::context_groups;
using testing_support::made_up_table;
using testing_support::table_of;

PlanSettings flexible_settings(int dp, std::int64_t tokens_per_rank, Strategy strategy) {
  PlanSettings settings;
  settings.dp = dp;
  const auto largest = static_cast<int>(std::bit_floor(static_cast<unsigned>(dp)));
  settings.strategy = context_groups(largest, strategy == Strategy::grid);
  settings.balance.cost = CostModel{10, 1};
  settings.balance.overhead = 5;
  settings.balance.communication = {1, 3, 2, 1000};
  settings.micro_batch.max_tokens = tokens_per_rank;
  return settings;
}

std::vector<ContextGroup> groups_of(const DpRankPlan& rank) {
  std::vector<ContextGroup> groups;
  for (const MicroBatchPlan& m : rank.micro_batches) groups.push_back(m.context);
  return groups;
}

TEST(FlexibleGroups, a_sample_above_the_cap_of_one_rank_runs_on_several_ranks) {
  const LengthTable table = table_of({30, 8, 8, 8, 8});
  const StepPlan plan = plan_step({table, flexible_settings(4, 8, Strategy::hierarchical)});
  // 30 tokens, aligned to 32, on four ranks; then each rank has one of the other samples.
  for (int r = 0; r < 4; ++r) {
    EXPECT_THAT(groups_of(plan.ranks[static_cast<std::size_t>(r)]),
                ElementsAre(ContextGroup{DataPlace{0}, 4}, ContextGroup{DataPlace{r}, 1}));
  }
  EXPECT_EQ(plan.ranks[2].micro_batches[0].aligned_tokens, 32);
  EXPECT_EQ(plan.counts, (std::vector<std::int64_t>{2}));
}

TEST(FlexibleGroups, ranks_of_a_tree_have_as_many_micro_batches_as_they_take_part_in) {
  const StepPlan plan = plan_step({table_of({8, 8, 8}), flexible_settings(4, 8, Strategy::hierarchical)});
  std::int64_t micro_batches = 0;
  for (const DpRankPlan& rank : plan.ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches) micro_batches += m.empty() ? 0 : 1;
  }
  EXPECT_GE(micro_batches, 3);
}

TEST(FlexibleGroups, an_unused_rank_has_an_empty_micro_batch_in_every_mini_batch) {
  PlanSettings settings = flexible_settings(4, 8, Strategy::hierarchical);
  settings.strategy = ContextTreeSettings{1};
  settings.mini_batches.count = 2;
  const StepPlan plan = plan_step({table_of({8, 8, 8}), settings});
  EXPECT_EQ(plan.counts, (std::vector<std::int64_t>{1, 1}));
  std::int64_t empty = 0;
  for (int r = 0; r < 4; ++r) {
    const std::vector<MicroBatchPlan>& own = plan.ranks[static_cast<std::size_t>(r)].micro_batches;
    ASSERT_EQ(own.size(), 2U);
    for (std::size_t m = 0; m < own.size(); ++m) {
      EXPECT_EQ(own[m].mini_batch, MiniBatchId{static_cast<std::int64_t>(m)});
      EXPECT_EQ(own[m].context, (ContextGroup{DataPlace{r}, 1}));
      empty += own[m].empty() ? 1 : 0;
    }
  }
  EXPECT_EQ(empty, 2 * 4 - 3);
}

TEST(FlexibleGroups, idle_ranks_of_a_wave_have_an_empty_micro_batch_of_their_own) {
  PlanSettings settings = flexible_settings(4, 8, Strategy::grid);
  settings.micro_batch.multiple_of = 2;
  const StepPlan plan = plan_step({table_of({30}), settings});
  EXPECT_EQ(plan.num_micro_batches(), 2);
  for (int r = 0; r < 4; ++r) {
    const std::vector<MicroBatchPlan>& own = plan.ranks[static_cast<std::size_t>(r)].micro_batches;
    ASSERT_EQ(own.size(), 2U);
    const MicroBatchPlan& idle = own[0].empty() ? own[0] : own[1];
    EXPECT_TRUE(idle.empty());
    EXPECT_EQ(idle.context, (ContextGroup{DataPlace{r}, 1}));
  }
}

// 14 tokens on two ranks: half of 336 of work each, plus 5, is 173. 8 tokens on one rank: 149. Rank 0 takes
// twice as long, and so would any block that contains it.
TEST(FlexibleGroups, a_slow_rank_gets_less_and_no_part_of_a_long_sample) {
  PlanSettings settings = flexible_settings(4, 8, Strategy::hierarchical);
  settings.balance.speeds = {500, 1000, 1000, 1000};
  const LengthTable table = table_of({14, 8, 8, 8, 8, 8});
  const StepPlan plan = plan_step({table, settings});
  EXPECT_THAT(groups_of(plan.ranks[0]), ElementsAre(ContextGroup{DataPlace{0}, 1}));
  EXPECT_EQ(plan.ranks[0].micro_batches[0].cost, 2 * 149);
  EXPECT_EQ(plan.ranks[1].cost(), 2 * 149);
  EXPECT_THAT(groups_of(plan.ranks[2]),
              ElementsAre(ContextGroup{DataPlace{2}, 2}, ContextGroup{DataPlace{2}, 1}));
  EXPECT_EQ(end_time_of(plan, false), 173 + 149);
  EXPECT_LE(flexible_lower_bound({table, settings}), 173 + 149);
}

// 14 tokens on two ranks, one of which has half the speed, take 2 * 173.
TEST(FlexibleGroups, are_as_slow_as_their_slowest_rank) {
  PlanSettings settings = flexible_settings(2, 8, Strategy::hierarchical);
  settings.balance.speeds = {1000, 500};
  const StepPlan plan = plan_step({table_of({14}), settings});
  EXPECT_EQ(plan.ranks[0].cost(), 2 * 173);
  EXPECT_EQ(plan.ranks[1].cost(), 2 * 173);
  EXPECT_EQ(flexible_lower_bound({table_of({14}), settings}), 2 * 173);
}

TEST(FlexibleGroups, equal_speeds_change_nothing) {
  const LengthTable table = made_up_table(60, 3, 60);
  for (const Strategy strategy : {Strategy::hierarchical, Strategy::grid}) {
    PlanSettings settings = flexible_settings(12, 40, strategy);
    const StepPlan plan = plan_step({table, settings});
    settings.balance.speeds.assign(12, 500);
    EXPECT_EQ(plan_step({table, settings}), plan);
  }
}

// 8 tokens take 149, and twice as long on rank 0: ranks 1 to 3 have two samples each in a wave of that
// duration, and rank 0 has one.
TEST(FlexibleGroups, a_slow_rank_gets_less_in_a_wave) {
  PlanSettings settings = flexible_settings(4, 16, Strategy::grid);
  settings.balance.speeds = {500, 1000, 1000, 1000};
  settings.strategy = ContextWavesSettings{1};
  const LengthTable table = table_of({8, 8, 8, 8, 8, 8, 8});
  const StepPlan plan = plan_step({table, settings});
  ASSERT_EQ(plan.num_micro_batches(), 1);
  EXPECT_EQ(plan.ranks[0].micro_batches[0].tokens, 8);
  EXPECT_EQ(plan.ranks[3].micro_batches[0].tokens, 16);
  EXPECT_EQ(end_time_of(plan, true), 2 * 149);
  EXPECT_LE(flexible_lower_bound({table, settings}), 2 * 149);
}

TEST(FlexibleGroups, a_sample_too_long_for_every_group_is_refused_by_name) {
  const PlanSettings settings = flexible_settings(4, 8, Strategy::hierarchical);
  try {
    (void)plan_step({table_of({5, 33}), settings});
    FAIL();
  } catch (const LimitError& error) {
    EXPECT_EQ(error.report().where, "sample 1");
    EXPECT_THAT(error.report().message,
                HasSubstr("but the largest group, of 4 ranks, has a cap of 32 tokens"));
    EXPECT_THAT(error.report().hint, HasSubstr("max_tokens_per_rank"));
  }
}

TEST(FlexibleGroups, a_step_without_samples_is_idle) {
  for (const Strategy strategy : {Strategy::hierarchical, Strategy::grid}) {
    const StepPlan plan = plan_step({table_of({}), flexible_settings(2, 8, strategy)});
    EXPECT_EQ(plan.num_micro_batches(), 1);
    for (const DpRankPlan& rank : plan.ranks) {
      ASSERT_EQ(rank.micro_batches.size(), 1U);
      EXPECT_TRUE(rank.micro_batches[0].empty());
    }
  }
}

/// A random step under random settings.
struct RandomStep {
  RandomStep()
      : table(
            made_up_table(*rc::gen::inRange<std::int64_t>(0, 60), 3, *rc::gen::inRange<std::int64_t>(2, 60))),
        settings(flexible_settings(*rc::gen::inRange(1, 12), *rc::gen::inRange<std::int64_t>(24, 90),
                                   *rc::gen::element(Strategy::hierarchical, Strategy::grid))) {
    settings.tp = *rc::gen::inRange(1, 3);
    settings.cp.layout = *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous);
    settings.align_lcm = *rc::gen::element<std::int64_t>(1, 3);
    settings.mini_batches.count = *rc::gen::inRange<std::int64_t>(1, 4);
    settings.micro_batch.order =
        *rc::gen::element(MicroBatchOrder::pipeline, MicroBatchOrder::cost, MicroBatchOrder::schedule);
    settings.sharing = *rc::gen::element(PrefixSharing::none, PrefixSharing::prompts);
    if (*rc::gen::arbitrary<bool>()) settings.micro_batch.max_samples = *rc::gen::inRange<std::int64_t>(1, 6);
    if (settings.find<ContextWavesSettings>() != nullptr)
      settings.micro_batch.multiple_of = *rc::gen::inRange<std::int64_t>(1, 4);
    if (settings.find<ContextWavesSettings>() != nullptr) settings.pp = *rc::gen::inRange(1, 4);
    if (*rc::gen::arbitrary<bool>()) {
      for (int r = 0; r < settings.dp; ++r)
        settings.balance.speeds.push_back(*rc::gen::inRange<std::int64_t>(100, 2000));
    }
    // The longest sample must fit if there is only one rank.
    if (settings.dp < 4) settings.micro_batch.max_tokens = 120;
  }

  LengthTable table;
  PlanSettings settings;
};

void require_group(const ContextGroup& group, const PlanSettings& settings, int rank) {
  RC_ASSERT((group.size & (group.size - 1)) == 0);
  RC_ASSERT(group.size <= settings.largest_group());
  RC_ASSERT(group.first.value() % group.size == 0);
  RC_ASSERT(group.first.value() + group.size <= settings.dp);
  RC_ASSERT(group.contains(DataPlace{rank}));
}

/// Each group's micro-batches are the same and in the same order on all of its members.
void require_equal_on_members(const StepPlan& plan) {
  std::map<std::pair<DataPlace, int>, std::vector<std::vector<MicroBatchPlan>>> of_groups;
  for (const DpRankPlan& rank : plan.ranks) {
    std::map<std::pair<DataPlace, int>, std::vector<MicroBatchPlan>> own;
    for (const MicroBatchPlan& m : rank.micro_batches) own[{m.context.first, m.context.size}].push_back(m);
    for (auto& [group, micro_batches] : own) of_groups[group].push_back(std::move(micro_batches));
  }
  for (const auto& [group, lists] : of_groups) {
    RC_ASSERT(std::ssize(lists) == group.second);
    for (const auto& list : lists) RC_ASSERT(list == lists.front());
  }
}

RC_GTEST_PROP(FlexibleGroups, keep_every_promise_on_random_steps, ()) {
  const RandomStep step;
  const PlanSettings& settings = step.settings;
  const StepPlan plan = plan_step({step.table, settings});
  RC_ASSERT(plan == plan_step({step.table, settings}));
  require_equal_on_members(plan);
  std::vector<EntryId> entries;
  for (int r = 0; r < settings.dp; ++r) {
    const std::vector<MicroBatchPlan>& own = plan.ranks[static_cast<std::size_t>(r)].micro_batches;
    if (settings.find<ContextWavesSettings>() != nullptr)
      RC_ASSERT(std::ssize(own) == plan.num_micro_batches());
    for (const MiniBatchId m : ids_below<MiniBatchId>(settings.mini_batches.count))
      RC_ASSERT(std::ranges::find(own, m, &MicroBatchPlan::mini_batch) != own.end());
    for (std::size_t m = 0; m < own.size(); ++m) {
      require_group(own[m].context, settings, r);
      RC_ASSERT(own[m].aligned_tokens <= settings.cap(own[m].context.size));
      RC_ASSERT(own[m].aligned_tokens % settings.alignment(own[m].context.size) == 0);
      RC_ASSERT(std::ssize(own[m].entries) <= settings.limits().max_items);
      if (own[m].is_led_by(DpRank{r})) std::ranges::copy(own[m].entries, std::back_inserter(entries));
      const bool follows = m > 0 && own[m].mini_batch == own[m - 1].mini_batch;
      if (settings.find<ContextTreeSettings>() != nullptr && follows)
        RC_ASSERT(own[m].context.size <= own[m - 1].context.size);
    }
  }
  std::ranges::sort(entries);
  RC_ASSERT(entries == all_ids<EntryId>(step.table.size()));
  RC_ASSERT(end_time_of(plan, settings.find<ContextWavesSettings>() != nullptr) >=
            flexible_lower_bound({step.table, settings}));
}

// Conservation over all ranks in one process.
RC_GTEST_PROP(FlexibleGroups, senders_and_receivers_agree_for_all_ranks, ()) {
  const RandomStep step;
  const StepAssignment assignment = assign_step({step.table, step.settings});
  constexpr int owners = 3;
  const GroupsOfPlaces groups(assignment.groups);
  std::vector<int> received(static_cast<std::size_t>(assignment.segments.size()));
  for (int place = 0; place < step.settings.dp; ++place) {
    const auto ends = [&](int owner) { return TransferEnds{WorldRank{owner}, DataPlace{place}, owners}; };
    const auto mine = plan_transfers(step.table, assignment.segments, assignment.groups, ends(0));
    for (int owner = 0; owner < owners; ++owner) {
      const auto plan = plan_transfers(step.table, assignment.segments, assignment.groups, ends(owner));
      std::vector<SegmentId> sent;
      for (const auto& [group, member] : groups.memberships_of(DataPlace{place})) {
        RC_ASSERT(assignment.groups[group].rank_of(DataPlace{place}) == member);
        std::ranges::copy(plan.to_group[group], std::back_inserter(sent));
      }
      RC_ASSERT(sent == mine.from_owner[static_cast<std::size_t>(owner)]);
      for (const SegmentId segment : sent) ++received[segment.index()];
    }
  }
  for (std::size_t s = 0; s < received.size(); ++s)
    RC_ASSERT(received[s] == assignment.segments[SegmentId{static_cast<std::int64_t>(s)}].group_size);
}

TEST(FlexibleGroups, weights_of_the_loss_add_up_over_groups_as_over_one_rank) {
  const LengthTable table = made_up_table(40, 2, 60);
  for (const Strategy strategy : {Strategy::hierarchical, Strategy::grid}) {
    const StepPlan plan = plan_step({table, flexible_settings(8, 24, strategy)});
    const auto losses = step_losses(table, plan, {});
    double sum = 0;
    for (std::size_t r = 0; r < losses.size(); ++r) {
      ASSERT_EQ(losses[r].size(), plan.ranks[r].micro_batches.size());
      for (std::size_t m = 0; m < losses[r].size(); ++m) {
        const MicroBatchPlan& micro_batch = plan.ranks[r].micro_batches[m];
        EXPECT_EQ(losses[r][m].scale, 8);
        for (std::size_t i = 0; i < micro_batch.entries.size(); ++i) {
          const SampleShape& shape = table[micro_batch.entries[i]].shape;
          const std::int64_t tokens =
              shape.length() - std::max<std::int64_t>(shape.prompt, shape.length() > 0);
          // Each member has its part of the sample.
          sum += losses[r][m].token_weights[i] * static_cast<double>(tokens) / micro_batch.context.size;
        }
      }
    }
    EXPECT_NEAR(sum, 1, 1e-12);
  }
}

TEST(FlexibleGroups, are_planned_for_16384_ranks) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 40000; ++i)
    lengths.push_back(i % 100 == 0 ? 100000 + 37 * i % 300000 : 200 + 7919 * i % 6000);
  const LengthTable table = table_of(lengths, 4);
  for (const Strategy strategy : {Strategy::hierarchical, Strategy::grid}) {
    PlanSettings settings = flexible_settings(16384, 16384, strategy);
    settings.balance.cost = CostModel::flops_7b();
    settings.balance.communication = {};
    settings.balance.overhead.reset();
    const StepPlan plan = plan_step({table, settings});
    std::vector<int> seen(lengths.size());
    for (int r = 0; r < settings.dp; ++r) {
      for (const MicroBatchPlan& m : plan.ranks[static_cast<std::size_t>(r)].micro_batches) {
        ASSERT_LE(m.aligned_tokens, settings.cap(m.context.size));
        for (const EntryId entry : m.entries) {
          if (m.is_led_by(DpRank{r})) ++seen[entry.index()];
        }
      }
    }
    EXPECT_TRUE(std::ranges::all_of(seen, [](int times) { return times == 1; }));
  }
}

}  // namespace
}  // namespace evenkeel
