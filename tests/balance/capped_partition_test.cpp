#include "balance/bins/capped_partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>
#include <string>

#include "balance/adversarial_costs.hpp"
#include "balance/fewest_bins.hpp"
#include "balance/partition/lpt.hpp"
#include "balance/quality.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using test::joined;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Sizes = std::vector<std::int64_t>;

/// Partitions with at least the required number of groups: each contains every item and satisfies the limits.
void expect_sound(const std::vector<Cost>& costs, BinItems items, BinLimits limits,
                  const std::vector<std::int64_t>& more_groups) {
  const GroupCount count = count_groups(costs, items, limits);
  ASSERT_LE(count.lower_bound, count.needed);
  for (const std::int64_t more : more_groups) {
    const Partition partition = partition_under_limits(costs, items, limits, count.needed + more);
    ASSERT_EQ(partition.size(), count.needed + more);
    ASSERT_TRUE(holds_every_item_once(partition, items.sizes.size()));
    ASSERT_TRUE(keeps_limits(partition, items, limits)) << "k = " << count.needed + more;
    ASSERT_TRUE(std::ranges::is_sorted(group_sums(partition, costs), std::ranges::greater{}));
  }
}

// The reference only derives the number of groups from the cap; one of its groups has 14.
TEST(PartitionUnderLimits, balancing_never_breaks_the_cap) {
  const Sizes lengths = {2, 3, 3, 4, 6, 6, 6, 8};
  const BinLimits limits{.max_size = 13};
  EXPECT_GT(largest_sum(karmarkar_karp(lengths, 3), lengths), 13);
  EXPECT_EQ(count_groups(lengths, lengths, limits), (GroupCount{3, 3}));
  EXPECT_EQ(largest_sum(partition_under_limits(lengths, lengths, limits, 3), lengths), 13);
}

TEST(DealUnderLimits, items_go_to_the_cheapest_group_with_room) {
  const std::vector<Cost> costs = {5, 4, 3, 2};
  const std::vector<EmptyGroup> groups = {{.cost = 6, .limits = {.max_size = 9}},
                                          {.cost = 0, .limits = {.max_size = 1}}};
  const std::optional<Partition> dealt = lpt_under_limits(costs, Sizes{1, 2, 1, 6}, groups);
  ASSERT_TRUE(dealt);
  EXPECT_THAT(dealt->to_vectors(), ElementsAre(ElementsAre(1, 2, 3), ElementsAre(0)));
  EXPECT_EQ(lpt_under_limits(costs, Sizes{1, 2, 1, 7}, groups), std::nullopt);
}

// The reference puts three samples into one group here.
TEST(PartitionUnderLimits, max_items_limits_the_items_of_each_group) {
  const Sizes lengths = {1, 1, 1, 3};
  const BinLimits limits{.max_size = 6, .max_items = 2};
  EXPECT_EQ(count_groups(lengths, lengths, limits), (GroupCount{2, 2}));
  EXPECT_EQ(count_spread(partition_under_limits(lengths, lengths, limits, 2)), 0);
}

// The reference creates empty groups instead, and accepts the item above the cap.
TEST(CountGroups, an_item_above_the_cap_is_an_error_that_names_it) {
  for (const auto& use : {+[] {
                            (void)count_groups(Sizes{1, 2}, Sizes{1, 2}, {.max_size = 1});
                          },
                          +[] {
                            (void)partition_under_limits(Sizes{1, 2}, Sizes{1, 2}, {.max_size = 1}, 3);
                          }}) {
    try {
      use();
      FAIL() << "item 1 fits nowhere";
    } catch (const LimitError& error) {
      EXPECT_THAT(error.what(), HasSubstr("item 1 has size 2, above the limit of 1"));
    }
  }
}

TEST(PartitionUnderLimits, more_groups_than_items_leave_groups_empty) {
  EXPECT_THAT(partition_under_limits(Sizes{1}, Sizes{1}, {.max_size = 1}, 2).to_vectors(),
              ElementsAre(ElementsAre(0), IsEmpty()));
}

TEST(CountGroups, no_items_need_no_groups) {
  EXPECT_EQ(count_groups({}, {}, {.max_size = 8}), (GroupCount{0, 0}));
  EXPECT_EQ(partition_under_limits({}, {}, {.max_size = 8}, 0).size(), 0);
  EXPECT_THAT(partition_under_limits({}, {}, {.max_size = 8}, 2).to_vectors(),
              ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(CountGroups, differencing_finds_a_packing_where_descending_sizes_need_another_bin) {
  // 7 + 5 leaves 3 unused, so the last 4 does not fit; only 7 + 4 + 4 and 5 + 5 + 4 work.
  const Sizes sizes = {5, 7, 4, 5, 4, 4};
  const BinLimits limits{.max_size = 15};
  EXPECT_EQ(first_fit_decreasing(sizes, limits).size(), 3);
  EXPECT_EQ(best_fit_decreasing(sizes, limits).size(), 3);
  EXPECT_EQ(count_groups(sizes, sizes, limits), (GroupCount{2, 2}));
}

TEST(CountGroups, exchanges_find_a_packing_where_descending_sizes_and_differencing_fail) {
  // 9 + 3 + 3 and 7 + 4 + 4 fill both bins.
  const Sizes sizes = {9, 7, 4, 4, 3, 3};
  const BinLimits limits{.max_size = 15};
  EXPECT_EQ(first_fit_decreasing(sizes, limits).size(), 3);
  EXPECT_EQ(best_fit_decreasing(sizes, limits).size(), 3);
  EXPECT_GT(largest_sum(karmarkar_karp(sizes, 2), sizes), 15);
  EXPECT_GT(largest_sum(longest_processing_time(sizes, 2), sizes), 15);
  EXPECT_EQ(count_groups(sizes, sizes, limits), (GroupCount{2, 2}));
  EXPECT_EQ(largest_sum(partition_under_limits(sizes, sizes, limits, 2), sizes), 15);
}

TEST(PartitionUnderLimits, balances_costs_while_sizes_are_capped) {
  // Judged by costs alone, items 0 and 3 would share a group; their sizes do not fit.
  const std::vector<Cost> costs = {10, 9, 9, 8};
  const Sizes sizes = {6, 1, 1, 6};
  const BinLimits limits{.max_size = 8};
  EXPECT_FALSE(keeps_limits(karmarkar_karp(costs, 2), sizes, limits));
  const Partition partition = partition_under_limits(costs, sizes, limits, 2);
  EXPECT_THAT(group_sums(partition, costs), ElementsAre(19, 17));
  EXPECT_TRUE(keeps_limits(partition, sizes, limits));
}

TEST(PartitionUnderLimits, uses_karmarkar_karps_groups_if_they_are_optimal_and_within_the_limits) {
  const Sizes lengths = {1, 2, 2, 5, 3, 7, 6, 3};
  const Partition partition = partition_under_limits(lengths, lengths, {.max_size = 8}, 4);
  const std::vector<Cost> sums = group_sums(partition, lengths);
  EXPECT_EQ(sums, group_sums(karmarkar_karp(lengths, 4), lengths));
  EXPECT_EQ(sums.front(), max_sum_lower_bound(lengths, 4));
}

TEST(PartitionUnderLimits, improves_on_karmarkar_karp_by_moves_and_swaps) {
  const Sizes lengths = {8, 7, 6, 5, 4};
  EXPECT_EQ(largest_sum(karmarkar_karp(lengths, 2), lengths), 16);
  EXPECT_EQ(largest_sum(partition_under_limits(lengths, lengths, {.max_size = 20}, 2), lengths), 15);
}

TEST(PartitionUnderLimits, spreads_work_over_many_more_groups_than_needed) {
  // Items without cost fill the cap, so balancing only the costs exceeds it and bins must be split.
  std::vector<Cost> costs(64, 1);
  Sizes sizes(64, 1);
  for (std::size_t i = 0; i < 32; ++i) {
    costs[i] = 0;
    sizes[i] = 30;
  }
  const BinLimits limits{.max_size = 60};
  const GroupCount count = count_groups(costs, sizes, limits);
  const Partition partition = partition_under_limits(costs, sizes, limits, count.needed + 15);
  EXPECT_TRUE(keeps_limits(partition, sizes, limits));
  EXPECT_LE(largest_sum(partition, costs), max_sum_lower_bound(costs, count.needed + 15) + 1);
}

TEST(PartitionUnderLimits, long_tailed_lengths_end_up_within_half_a_percent_of_the_best_possible) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> length(7.5, 1.0);
  constexpr std::int64_t cap = 32768;
  for (int batch = 0; batch < 20; ++batch) {
    Sizes lengths(256);
    for (std::int64_t& each : lengths)
      each = std::clamp(static_cast<std::int64_t>(length(random)), std::int64_t{64}, cap);
    const BinLimits limits{.max_size = cap};
    const GroupCount count = count_groups(lengths, lengths, limits);
    EXPECT_EQ(count.needed, count.lower_bound);
    const Partition partition = partition_under_limits(lengths, lengths, limits, count.needed);
    const BalanceQuality quality = balance_quality(group_sums(partition, lengths));
    EXPECT_LE(quality.max, cap);
    // A length near the cap fills a group alone, so the mean may not be achievable.
    const Cost bound = max_sum_lower_bound(lengths, count.needed);
    EXPECT_LE(static_cast<double>(quality.max), 1.005 * static_cast<double>(bound));
  }
}

TEST(PartitionUnderLimits, too_few_groups_are_an_error) {
  const Sizes lengths = {5, 5, 5};
  EXPECT_THROW((void)partition_under_limits(lengths, lengths, {.max_size = 9}, 2), LimitError);
  EXPECT_THROW((void)partition_under_limits(lengths, lengths, {.max_size = 9}, 0), InputError);
}

TEST(PartitionUnderLimits, costs_and_sizes_must_have_the_same_length) {
  EXPECT_THROW((void)partition_under_limits(Sizes{1, 2}, Sizes{1}, {.max_size = 9}, 2), InputError);
  EXPECT_THROW((void)count_groups(Sizes{1, 2}, Sizes{1}, {.max_size = 9}), InputError);
  EXPECT_THROW((void)count_groups(Sizes{-1}, Sizes{1}, {.max_size = 9}), InputError);
}

struct CappedAdversary {
  std::string name;
  Sizes sizes;
  BinLimits limits;

  friend void PrintTo(const CappedAdversary& adversary, std::ostream* out) { *out << adversary.name; }
};

class AdversarialSizes : public testing::TestWithParam<CappedAdversary> {};

TEST_P(AdversarialSizes, keep_the_limits_for_every_count) {
  const auto& [name, sizes, limits] = GetParam();
  const std::vector<Cost> unlike(sizes.rbegin(), sizes.rend());
  for (const std::vector<Cost>& costs : {sizes, unlike, std::vector<Cost>(sizes.size(), 0)}) {
    expect_sound(costs, sizes, limits, {0, 1, 2, 5, 40});
  }
}

Sizes powers_of_two(int count) {
  Sizes sizes;
  for (int i = 0; i < count; ++i) sizes.push_back(std::int64_t{1} << i);
  return sizes;
}

constexpr std::int64_t huge_size = std::int64_t{1} << 40;

INSTANTIATE_TEST_SUITE_P(
    Inputs, AdversarialSizes,
    testing::Values(CappedAdversary{"all_equal", Sizes(37, 5), {.max_size = 16}},
                    CappedAdversary{"one_giant", joined({100}, Sizes(40, 3)), {.max_size = 100}},
                    CappedAdversary{"powers_of_two", powers_of_two(20), {.max_size = (1 << 19) + 3}},
                    CappedAdversary{"two_clusters", joined(Sizes(21, 51), Sizes(30, 34)), {.max_size = 100}},
                    CappedAdversary{"one_item", {7}, {.max_size = 7}},
                    CappedAdversary{"zeros", Sizes(12, 0), {.max_size = 0, .max_items = 5}},
                    CappedAdversary{"huge",
                                    joined(Sizes(9, huge_size), Sizes(5, huge_size / 2 + 1)),
                                    {.max_size = 2 * huge_size}},
                    CappedAdversary{"exactly_the_cap", Sizes(10, 64), {.max_size = 64}},
                    CappedAdversary{"one_item_a_group", {9, 1, 8, 2, 7}, {.max_size = 50, .max_items = 1}},
                    CappedAdversary{"thirds",
                                    joined(Sizes(13, 34), joined(Sizes(13, 33), Sizes(13, 33))),
                                    {.max_size = 100}}),
    [](const auto& param) { return param.param.name; });

RC_GTEST_PROP(PartitionUnderLimits, the_limits_hold_for_every_count_from_the_needed_one_on, ()) {
  const Sizes sizes = *cost_lists(60);
  const auto costs = *rc::gen::oneOf(rc::gen::just(sizes),
                                     rc::gen::container<Sizes>(sizes.size(), rc::gen::inRange<Cost>(0, 100)));
  const std::int64_t largest = largest_of(sizes);
  const std::int64_t factor = *rc::gen::inRange<std::int64_t>(2, 9);
  const BinLimits limits{largest * factor / 2, *rc::gen::inRange<std::int64_t>(1, 12)};
  const auto more = *rc::gen::inRange<std::int64_t>(0, 70);
  expect_sound(costs, sizes, limits, {0, 1, 2, 3, more});
}

/// Few items of these sizes fit into a bin. Descending order, differencing and exchanges each miss some
/// optima for them.
Sizes awkward_sizes(std::size_t most) {
  return *rc::gen::resize(static_cast<int>(most), rc::gen::container<Sizes>(rc::gen::resize(
                                                      100, rc::gen::inRange<std::int64_t>(0, 14))));
}

RC_GTEST_PROP(CountGroups, of_a_few_items_is_the_proven_optimum, ()) {
  const Sizes sizes = awkward_sizes(9);
  const BinLimits limits{*rc::gen::resize(100, rc::gen::inRange<std::int64_t>(13, 30)),
                         *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 6))};
  const GroupCount count = count_groups(sizes, sizes, limits);
  const std::int64_t optimum = fewest_bins(sizes, limits);
  RC_ASSERT(count == (GroupCount{optimum, optimum}));
  expect_sound(sizes, sizes, limits, {0, 1, 9});
}

// An indivisible item may represent several samples; the limit applies to samples.
TEST(CountGroups, uses_the_counts_of_items) {
  // One group of 8 samples and 8 groups of one, with at most 8 samples per bin: if the limit was divided by
  // the largest group's size, each bin could take one group, and 9 bins would be needed.
  const Sizes sizes(9, 1);
  const Sizes counts = {8, 1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(count_groups(sizes, {sizes, counts}, {.max_items = 8}), (GroupCount{2, 2}));
  expect_sound(sizes, {sizes, counts}, {.max_items = 8}, {0, 1, 8});
}

TEST(CountGroups, an_item_whose_count_exceeds_the_limit_is_an_error_that_names_it) {
  const Sizes sizes = {1, 1};
  const Sizes counts = {2, 5};
  EXPECT_THAT(testing_support::message_of([&] {
                (void)count_groups(sizes, {sizes, counts}, {.max_items = 4});
              }),
              HasSubstr("item 1 does not fit in any bin: its count is 5, but a bin holds at most 4"));
  const Sizes none = {1, 0};
  EXPECT_THROW((void)count_groups(sizes, {sizes, none}, {.max_items = 4}), InputError);
  const Sizes one = {1};
  EXPECT_THROW((void)count_groups(sizes, {sizes, one}, {.max_items = 4}), InputError);
}

RC_GTEST_PROP(CountGroups, of_items_with_counts_is_the_optimum, ()) {
  const Sizes sizes = awkward_sizes(9);
  const Sizes counts =
      *rc::gen::container<Sizes>(sizes.size(), rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 6)));
  const BinLimits limits{*rc::gen::resize(100, rc::gen::inRange<std::int64_t>(13, 40)),
                         *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(5, 16))};
  const BinItems items{sizes, counts};
  const std::int64_t optimum = fewest_bins(items, limits);
  RC_ASSERT(count_groups(sizes, items, limits) == (GroupCount{optimum, optimum}));
  expect_sound(sizes, items, limits, {0, 1, 9});
}

RC_GTEST_PROP(PartitionUnderLimits, keeps_the_limits_on_items_with_counts, ()) {
  const Sizes sizes = *cost_lists(60);
  const Sizes counts = *rc::gen::container<Sizes>(sizes.size(), rc::gen::inRange<std::int64_t>(1, 9));
  const BinLimits limits{largest_of(sizes) * *rc::gen::inRange<std::int64_t>(1, 5),
                         *rc::gen::inRange<std::int64_t>(8, 30)};
  expect_sound(sizes, {sizes, counts}, limits, {0, 1, 2, 7});
}

RC_GTEST_PROP(CountGroups, finds_a_packing_without_free_space, ()) {
  // Bins of 1000, cut at random: every bin must be filled completely.
  const auto bins = *rc::gen::inRange<std::int64_t>(1, 9);
  Sizes sizes;
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    Sizes cuts = *rc::gen::container<Sizes>(3, rc::gen::resize(100, rc::gen::inRange<std::int64_t>(0, 1001)));
    cuts.push_back(1000);
    std::ranges::sort(cuts);
    for (std::size_t i = 0; i < cuts.size(); ++i) sizes.push_back(cuts[i] - (i > 0 ? cuts[i - 1] : 0));
  }
  EXPECT_EQ(count_groups(sizes, sizes, {.max_size = 1000}), (GroupCount{bins, bins}));
  expect_sound(sizes, sizes, {.max_size = 1000}, {0, 1, 3});
}

TEST(CountGroups, proves_that_a_packing_at_the_simple_bound_is_impossible) {
  // 28 fits into two bins of 14 exactly, but no items add up to the 6 that must go with 8.
  const Sizes sizes = {8, 5, 5, 5, 3, 2};
  EXPECT_EQ(min_bins_lower_bound(sizes, {.max_size = 14}), 2);
  EXPECT_EQ(count_groups(sizes, sizes, {.max_size = 14}), (GroupCount{3, 3}));
}

TEST(CountGroups, a_search_over_budget_returns_its_best_packing) {
  // At most three items per bin, with odd sizes whose sum leaves little room: too many combinations to try
  // them all.
  Sizes sizes;
  for (std::int64_t i = 0; i < 300; ++i) sizes.push_back(30'001 + 2 * ((i * 7919) % 3001));
  const BinLimits limits{.max_size = 99'002};
  EXPECT_EQ(count_groups(sizes, sizes, limits), (GroupCount{100, 101}));
  expect_sound(sizes, sizes, limits, {0, 1});
}

}  // namespace
}  // namespace evenkeel
