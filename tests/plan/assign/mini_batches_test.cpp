#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/assign/step_assignment.hpp"
#include "support/assigned_samples.hpp"
#include "support/ids.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::ids;
using testing_support::made_up_table;
using testing_support::samples_to_dp_ranks;
using testing_support::table_of;

PlanSettings over_ranks(int dp, MiniBatchSettings mini_batches = {}, std::uint64_t seed = 1) {
  PlanSettings settings;
  settings.dp = dp;
  settings.mini_batches = mini_batches;
  settings.seed = seed;
  return settings;
}

/// Returns the entries of a mini-batch over all ranks, ascending.
std::vector<std::int64_t> members(const IdGroups<UnitId>& mini_batch) {
  std::vector<std::int64_t> entries = numbers_of(mini_batch.ids());
  std::ranges::sort(entries);
  return entries;
}

TEST(SplitIntoMiniBatches, keeps_source_order_and_balances_inside_each_mini_batch) {
  const LengthTable table = table_of({9, 1, 8, 2, 5, 5, 7, 3});
  const std::vector<IdGroups<UnitId>> batches = assign_units({table, over_ranks(2, {2})});
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_THAT(members(batches[0]), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(members(batches[1]), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(numbers_of(batches[0][1]), ElementsAre(0, 1));  // 9 + 1 tokens
  EXPECT_THAT(numbers_of(batches[0][0]), ElementsAre(2, 3));  // 8 + 2
}

TEST(SplitIntoMiniBatches, one_mini_batch_is_the_dp_assignment) {
  const LengthTable table = made_up_table(50, 4);
  for (const bool keep : {true, false}) {
    const std::vector<IdGroups<UnitId>> batches = assign_units({table, over_ranks(4, {1, keep})});
    EXPECT_EQ(batches.front().items(), samples_to_dp_ranks(table, over_ranks(4)));
  }
}

TEST(SplitIntoMiniBatches, without_keep_each_rank_keeps_the_share_it_has_of_the_whole_batch) {
  const LengthTable table = made_up_table(40, 4);
  const Partition shares = samples_to_dp_ranks(table, over_ranks(4));
  const std::vector<IdGroups<UnitId>> batches = assign_units({table, over_ranks(4, {3, false})});
  for (int r = 0; r < 4; ++r) {
    std::vector<Item> share;
    for (std::int64_t m = 0; m < 3; ++m) {
      const auto held = batches[static_cast<std::size_t>(m)].items()[r];
      share.insert(share.end(), held.begin(), held.end());
    }
    std::ranges::sort(share);
    EXPECT_TRUE(std::ranges::equal(share, shares[r]));
  }
}

TEST(SplitIntoMiniBatches, shuffles_differently_for_each_step_and_seed_and_reproducibly) {
  const LengthTable table = made_up_table(40, 1);
  for (const bool keep : {true, false}) {
    const auto draw = [&](std::uint64_t seed, std::int64_t step) {
      return assign_units({table, over_ranks(2, {4, keep, true}, seed), step});
    };
    EXPECT_EQ(draw(1, 0), draw(1, 0));
    EXPECT_NE(draw(1, 0), draw(1, 1));
    EXPECT_NE(draw(1, 0), draw(2, 0));
  }
}

TEST(SplitIntoMiniBatches, kept_mini_batches_do_not_depend_on_the_mesh) {
  const LengthTable table = made_up_table(37, 1);
  const MiniBatchSettings drawn{5, true, true};
  const std::vector<IdGroups<UnitId>> one = assign_units({table, over_ranks(1, drawn, 7), 3});
  const std::vector<IdGroups<UnitId>> six = assign_units({table, over_ranks(6, drawn, 7), 3});
  for (std::int64_t m = 0; m < 5; ++m)
    EXPECT_EQ(members(one[static_cast<std::size_t>(m)]), members(six[static_cast<std::size_t>(m)]));
}

TEST(SplitIntoMiniBatches, leaves_mini_batches_empty_when_samples_run_out) {
  const std::vector<IdGroups<UnitId>> batches = assign_units({table_of({4}), over_ranks(2, {3})});
  EXPECT_THAT(members(batches[0]), ElementsAre(0));
  EXPECT_THAT(members(batches[2]), IsEmpty());
}

TEST(SplitIntoMiniBatches, refuses_counts_below_one) {
  EXPECT_THROW((void)assign_units({table_of({4}), over_ranks(2, {0})}), ConfigError);
  EXPECT_THROW((void)assign_units({table_of({4}), over_ranks(0, {1})}), ConfigError);
}

// Samples with uids 1 and 2 alternate and share the prompts of these uids.
TEST(SplitIntoMiniBatches, keeps_groups_with_a_shared_prompt_together) {
  std::vector<LengthEntry> entries;
  for (const std::uint64_t uid : {1U, 2U, 1U, 2U, 1U, 2U}) {
    const auto id = static_cast<int>(entries.size());
    entries.push_back({{SampleId{id}, uid, 3, 2}, WorldRank{0}, id});
  }
  PlanSettings settings = over_ranks(1, {2});
  settings.sharing = PrefixSharing::prompts;
  const StepAssignment step = assign_step({LengthTable(entries), settings});
  EXPECT_EQ(step.entries_of(MiniBatchId{0}), ids<EntryId>({0, 2, 4}));
  EXPECT_EQ(step.entries_of(MiniBatchId{1}), ids<EntryId>({1, 3, 5}));
}

TEST(SplitIntoMiniBatches, without_keep_each_rank_cuts_its_share_of_whole_groups) {
  std::vector<LengthEntry> entries;
  for (int id = 0; id < 24; ++id)
    entries.push_back({{SampleId{id}, static_cast<std::uint64_t>(id / 3), 3, 2}, WorldRank{0}, id});
  const LengthTable table(entries);
  PlanSettings settings = over_ranks(2, {2, false});
  settings.sharing = PrefixSharing::prompts;
  const StepAssignment step = assign_step({table, settings});
  for (const MiniBatchAssignment& mini_batch : step.mini_batches) {
    for (int r = 0; r < 2; ++r) EXPECT_EQ(mini_batch.units[r].size(), 2U);  // of eight groups
  }
}

RC_GTEST_PROP(SplitIntoMiniBatches, hands_every_sample_out_once_in_even_mini_batches, ()) {
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 80), 1);
  const int dp = *rc::gen::inRange(1, 9);
  const auto count = *rc::gen::inRange<std::int64_t>(1, 7);
  const bool keep = *rc::gen::arbitrary<bool>();
  const PlanSettings settings =
      over_ranks(dp, {count, keep, *rc::gen::arbitrary<bool>()}, *rc::gen::arbitrary<std::uint64_t>());
  const std::vector<IdGroups<UnitId>> batches =
      assign_units({table, settings, *rc::gen::inRange<std::int64_t>(0, 9)});
  RC_ASSERT(std::ssize(batches) == count);
  std::vector<std::vector<Item>> mini_batch_members;
  for (std::int64_t m = 0; m < count; ++m)
    mini_batch_members.push_back(members(batches[static_cast<std::size_t>(m)]));
  const Partition mini_batches(mini_batch_members);
  RC_ASSERT(holds_every_item_once(mini_batches, static_cast<std::size_t>(table.size())));
  RC_ASSERT(count_spread(mini_batches) <= (keep ? 1 : dp));
}

}  // namespace
}  // namespace evenkeel
