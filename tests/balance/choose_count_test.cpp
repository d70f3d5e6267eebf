#include "balance/bins/choose_count.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

#include "balance/bins/capped_partition.hpp"
#include "balance/fewest_bins.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using Costs = std::vector<std::vector<Cost>>;

ItemsOfRank alike(const std::vector<Cost>& costs) {
  return {costs, costs};
}

TEST(EstimatedTime, ranks_wait_for_the_dearest_group_at_every_place) {
  EXPECT_EQ(estimated_time(Costs{{5, 1}, {3, 4}}, {.overhead = 10}), 5 + 4 + 2 * 10);
  EXPECT_EQ(estimated_time(Costs{{5}, {3, 4}}, {}), 5 + 4);
  EXPECT_EQ(estimated_time({}, {.overhead = 10, .stages = 4}), 0);
}

TEST(EstimatedTime, a_pipeline_fills_and_drains_at_the_pace_of_the_dearest_group) {
  EXPECT_EQ(estimated_time(Costs{{5, 1}}, {.overhead = 10, .stages = 4}), 6 + 2 * 10 + 3 * 15);
}

TEST(DefaultOverhead, is_the_work_of_256_tokens) {
  EXPECT_EQ(default_overhead(CostModel::tokens()), 256);
  EXPECT_EQ(default_overhead({0, 1}), 65536);
}

// Two groups of the cap hold 9 | 8 on the pipeline's four stages; three groups are smaller and it fills
// faster.
TEST(ChooseCount, takes_more_groups_than_the_fewest_where_a_pipeline_fills_faster_with_small_ones) {
  const std::vector<ItemsOfRank> ranks = {alike({3, 3, 3, 3, 3, 3})};
  const BinLimits limits{.max_size = 9};
  EXPECT_EQ(choose_count(ranks, limits, {.overhead = 0, .stages = 4}), (CountChoice{6, 2, 18 + 3 * 3}));
  EXPECT_EQ(choose_count(ranks, limits, {.overhead = 5, .stages = 4}), (CountChoice{3, 2, 18 + 15 + 3 * 11}));
  EXPECT_EQ(choose_count(ranks, limits, {.overhead = 100, .stages = 4}).count, 2);
}

TEST(ChooseCount, a_rank_that_waits_for_nobody_takes_the_fewest) {
  EXPECT_EQ(choose_count(std::vector{alike({5, 4, 3, 2, 1})}, {.max_size = 8}, {.overhead = 1}),
            (CountChoice{2, 2, 15 + 2}));
  EXPECT_EQ(choose_count(std::vector{alike({5, 4, 3, 2, 1})}, {.max_size = 8}, {}).count, 2);
}

TEST(ChooseCount, ranks_agree_on_a_multiple_that_is_enough_for_all) {
  const std::vector<ItemsOfRank> ranks = {alike({5}), alike({5, 5, 5}), alike({})};
  EXPECT_EQ(choose_count(ranks, {.max_size = 5}, {.overhead = 9}).count, 3);
  EXPECT_EQ(choose_count(ranks, {.max_size = 5}, {.overhead = 9, .multiple = 4}).count, 4);
  EXPECT_EQ(choose_count(ranks, {.max_size = 5}, {.overhead = 9, .multiple = 2, .min_count = 5}).count, 6);
  EXPECT_EQ(choose_count({}, {.max_size = 5}, {.overhead = 9}), (CountChoice{1, 1, 0}));
}

TEST(ChooseCount, bad_settings_and_items_are_errors) {
  const std::vector<ItemsOfRank> ranks = {alike({5})};
  EXPECT_THROW((void)choose_count(ranks, {}, {.overhead = -1}), InputError);
  EXPECT_THROW((void)choose_count(ranks, {}, {.stages = 0}), InputError);
  EXPECT_THROW((void)choose_count(ranks, {}, {.multiple = 0}), InputError);
  EXPECT_THROW((void)choose_count(ranks, {}, {.min_count = 0}), InputError);
  EXPECT_THROW((void)choose_count(ranks, {.max_size = 4}, {}), LimitError);
}

RC_GTEST_PROP(ChooseCount, is_never_slower_than_the_fewest_and_keeps_the_limits, ()) {
  std::vector<ItemsOfRank> ranks;
  std::int64_t longest = 1;
  for (int rank = *rc::gen::inRange(1, 5); rank > 0; --rank) {
    ranks.push_back(alike(*cost_lists(12)));
    longest = std::max(longest, largest_of(ranks.back().sizes));
  }
  const BinLimits limits{.max_size = longest + *rc::gen::inRange<std::int64_t>(0, longest + 1)};
  const GroupTiming timing{*rc::gen::inRange<Cost>(0, 100), *rc::gen::inRange<std::int64_t>(1, 5),
                           *rc::gen::inRange<std::int64_t>(1, 4)};
  const CountChoice choice = choose_count(ranks, limits, timing);
  RC_ASSERT(choice.count >= choice.fewest);
  RC_ASSERT(choice.count % timing.multiple == 0);
  Costs at_choice;
  Costs at_fewest;
  for (const ItemsOfRank& rank : ranks) {
    const Partition groups = partition_under_limits(rank.costs, rank.sizes, limits, choice.count);
    RC_ASSERT(keeps_limits(groups, rank.sizes, limits));
    at_choice.push_back(group_sums(groups, rank.costs));
    at_fewest.push_back(
        group_sums(partition_under_limits(rank.costs, rank.sizes, limits, choice.fewest), rank.costs));
  }
  RC_ASSERT(choice.time == estimated_time(at_choice, timing));
  RC_ASSERT(choice.time <= estimated_time(at_fewest, timing));
}

struct CountAdversary {
  std::string name;
  std::vector<Cost> costs;
  CountChoice choice;  ///< overhead 1, 2 stages, cap: twice the largest

  friend void PrintTo(const CountAdversary& adversary, std::ostream* out) { *out << adversary.name; }
};

class AdversarialCounts : public testing::TestWithParam<CountAdversary> {};

TEST_P(AdversarialCounts, are_chosen_under_the_cap) {
  const auto& [name, costs, choice] = GetParam();
  const BinLimits limits{.max_size = std::max<Cost>(2 * largest_of(costs), 1)};
  EXPECT_EQ(choose_count(std::vector{alike(costs)}, limits, {.overhead = 1, .stages = 2}), choice);
}

constexpr Cost huge_item = Cost{1} << 40;

INSTANTIATE_TEST_SUITE_P(
    Inputs, AdversarialCounts,
    testing::Values(CountAdversary{"all_equal", std::vector<Cost>(8, 5), {8, 4, 40 + 8 + 6}},
                    CountAdversary{"one_giant", {100, 1, 1, 1}, {2, 1, 103 + 2 + 101}},
                    CountAdversary{"powers_of_two", {1, 2, 4, 8, 16}, {2, 1, 31 + 2 + 17}},
                    CountAdversary{"two_clusters", {10, 10, 1, 1}, {2, 2, 22 + 2 + 12}},
                    CountAdversary{"one_item", {7}, {1, 1, 7 + 1 + 8}},
                    CountAdversary{"zeros", std::vector<Cost>(5, 0), {1, 1, 0 + 1 + 1}},
                    CountAdversary{
                        "huge", std::vector<Cost>(4, huge_item), {4, 2, 4 * huge_item + 4 + huge_item + 1}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace evenkeel
