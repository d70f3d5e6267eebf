#include "evenkeel/plan/mini_batches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/dp_assignment.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::made_up_table;
using testing_support::table_of;

PlanSettings over_ranks(int dp, MiniBatchSettings mini_batches = {}, std::uint64_t seed = 1) {
  PlanSettings settings;
  settings.dp = dp;
  settings.mini_batches = mini_batches;
  settings.seed = seed;
  return settings;
}

/// The entries of a mini-batch over all ranks, ascending.
std::vector<Item> members(const MiniBatches& batches, std::int64_t mini_batch, int dp) {
  std::vector<Item> entries;
  for (int r = 0; r < dp; ++r) {
    const auto held = batches.of(mini_batch, DpRank{r});
    entries.insert(entries.end(), held.begin(), held.end());
  }
  std::ranges::sort(entries);
  return entries;
}

TEST(SplitIntoMiniBatches, keeps_source_order_and_balances_inside_each_mini_batch) {
  const LengthTable table = table_of({9, 1, 8, 2, 5, 5, 7, 3});
  const MiniBatches batches = split_into_mini_batches(table, over_ranks(2, {2}), 0);
  ASSERT_EQ(batches.size(), 2);
  EXPECT_THAT(members(batches, 0, 2), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(members(batches, 1, 2), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(batches.of(0, DpRank{1}), ElementsAre(0, 1));  // 9 + 1 tokens
  EXPECT_THAT(batches.of(0, DpRank{0}), ElementsAre(2, 3));  // 8 + 2
}

TEST(SplitIntoMiniBatches, one_mini_batch_is_the_dp_assignment) {
  const LengthTable table = made_up_table(50, 4);
  for (const bool keep : {true, false}) {
    const MiniBatches batches = split_into_mini_batches(table, over_ranks(4, {1, keep}), 0);
    EXPECT_EQ(batches.groups(), assign_to_dp_ranks(table, over_ranks(4)));
  }
}

TEST(SplitIntoMiniBatches, without_keep_each_rank_keeps_the_share_it_has_of_the_whole_batch) {
  const LengthTable table = made_up_table(40, 4);
  const Partition shares = assign_to_dp_ranks(table, over_ranks(4));
  const MiniBatches batches = split_into_mini_batches(table, over_ranks(4, {3, false}), 0);
  for (int r = 0; r < 4; ++r) {
    std::vector<Item> share;
    for (std::int64_t m = 0; m < 3; ++m) {
      const auto held = batches.of(m, DpRank{r});
      share.insert(share.end(), held.begin(), held.end());
    }
    std::ranges::sort(share);
    EXPECT_TRUE(std::ranges::equal(share, shares[r]));
  }
}

TEST(SplitIntoMiniBatches, draws_anew_for_every_step_and_seed_and_the_same_for_the_same) {
  const LengthTable table = made_up_table(40, 1);
  for (const bool keep : {true, false}) {
    const auto draw = [&](std::uint64_t seed, std::int64_t step) {
      return split_into_mini_batches(table, over_ranks(2, {4, keep, true}, seed), step);
    };
    EXPECT_EQ(draw(1, 0), draw(1, 0));
    EXPECT_NE(draw(1, 0), draw(1, 1));
    EXPECT_NE(draw(1, 0), draw(2, 0));
  }
}

TEST(SplitIntoMiniBatches, kept_mini_batches_do_not_depend_on_the_mesh) {
  const LengthTable table = made_up_table(37, 1);
  const MiniBatchSettings drawn{5, true, true};
  const MiniBatches one = split_into_mini_batches(table, over_ranks(1, drawn, 7), 3);
  const MiniBatches six = split_into_mini_batches(table, over_ranks(6, drawn, 7), 3);
  for (std::int64_t m = 0; m < 5; ++m) EXPECT_EQ(members(one, m, 1), members(six, m, 6));
}

TEST(SplitIntoMiniBatches, leaves_mini_batches_empty_when_samples_run_out) {
  const MiniBatches batches = split_into_mini_batches(table_of({4}), over_ranks(2, {3}), 0);
  EXPECT_THAT(members(batches, 0, 2), ElementsAre(0));
  EXPECT_THAT(members(batches, 2, 2), IsEmpty());
}

TEST(SplitIntoMiniBatches, refuses_counts_below_one) {
  EXPECT_THROW((void)split_into_mini_batches(table_of({4}), over_ranks(2, {0}), 0), ConfigError);
  EXPECT_THROW((void)split_into_mini_batches(table_of({4}), over_ranks(0, {1}), 0), ConfigError);
}

TEST(MiniBatches, give_the_shares_of_one_mini_batch) {
  const MiniBatches batches(Partition(std::vector<std::vector<Item>>{{0, 3}, {1}, {2}, {4, 5}}), 2);
  EXPECT_EQ(batches.shares(1), Partition(std::vector<std::vector<Item>>{{2}, {4, 5}}));
}

TEST(MiniBatches, need_dp_groups_each) {
  const std::vector<std::vector<Item>> three(3);
  EXPECT_THROW(MiniBatches(Partition(three), 2), InputError);
  EXPECT_THROW(MiniBatches(Partition(three), 0), InputError);
  EXPECT_EQ(MiniBatches(Partition(three), 3).size(), 1);
}

RC_GTEST_PROP(SplitIntoMiniBatches, hands_every_sample_out_once_in_even_mini_batches, ()) {
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 80), 1);
  const int dp = *rc::gen::inRange(1, 9);
  const auto count = *rc::gen::inRange<std::int64_t>(1, 7);
  const bool keep = *rc::gen::arbitrary<bool>();
  const PlanSettings settings =
      over_ranks(dp, {count, keep, *rc::gen::arbitrary<bool>()}, *rc::gen::arbitrary<std::uint64_t>());
  const MiniBatches batches = split_into_mini_batches(table, settings, *rc::gen::inRange<std::int64_t>(0, 9));
  RC_ASSERT(batches.size() == count);
  RC_ASSERT(holds_every_item_once(batches.groups(), static_cast<std::size_t>(table.size())));
  std::vector<std::vector<Item>> mini_batch_members;
  for (std::int64_t m = 0; m < count; ++m) mini_batch_members.push_back(members(batches, m, dp));
  RC_ASSERT(count_spread(Partition(mini_batch_members)) <= (keep ? 1 : dp));
}

}  // namespace
}  // namespace evenkeel
