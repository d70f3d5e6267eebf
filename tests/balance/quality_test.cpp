#include "balance/quality.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/best_largest_sum.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

TEST(MaxSumLowerBound, is_the_mean_rounded_up_or_the_largest_item) {
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{1, 2, 2, 5, 3, 7, 6, 3}, 4), 8);
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{9, 1, 1}, 2), 9);
}

TEST(MaxSumLowerBound, with_equal_counts_the_largest_item_has_company) {
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{9, 4, 5, 6}, 2), 12);
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{9, 4, 5, 6}, 2, GroupSize::equal), 13);
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{9, 4, 5}, 3, GroupSize::equal), 9);
}

TEST(MaxSumLowerBound, of_no_items_is_zero_and_no_groups_are_an_error) {
  EXPECT_EQ(max_sum_lower_bound({}, 4), 0);
  EXPECT_THROW((void)max_sum_lower_bound(std::vector<Cost>{1}, 0), InputError);
}

TEST(MaxSumLowerBound, more_large_items_than_groups_must_crowd) {
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{5, 5, 5}, 2), 10);
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{5, 5, 5, 1, 1, 1}, 2), 10);
  // The two items that share a group belong to a group of three items.
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{5, 5, 5, 1, 1, 1}, 2, GroupSize::equal), 11);
}

TEST(MaxSumLowerBound, with_equal_counts_several_large_items_need_different_company) {
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{9, 9, 1, 2, 3, 4}, 3), 10);
  EXPECT_EQ(max_sum_lower_bound(std::vector<Cost>{9, 9, 1, 2, 3, 4}, 3, GroupSize::equal), 11);
}

RC_GTEST_PROP(MaxSumLowerBound, no_partition_goes_below_it, ()) {
  const auto k = *rc::gen::inRange<std::int64_t>(1, 4);
  const std::vector<Cost> costs = *cost_lists(7);
  for (const GroupSize group_size : {GroupSize::free, GroupSize::equal})
    RC_ASSERT(max_sum_lower_bound(costs, k, group_size) <= best_largest_sum(costs, k, group_size));
}

TEST(BalanceQuality, is_the_largest_sum_relative_to_the_mean) {
  EXPECT_EQ(balance_quality(std::vector<Cost>{6, 12, 12}), (BalanceQuality{6, 12, 10.0, 1.2}));
}

TEST(BalanceQuality, empty_and_zero_sums_are_perfectly_even) {
  EXPECT_EQ(balance_quality({}), BalanceQuality{});
  EXPECT_EQ(balance_quality(std::vector<Cost>{0, 0}), (BalanceQuality{0, 0, 0.0, 1.0}));
}

}  // namespace
}  // namespace evenkeel
