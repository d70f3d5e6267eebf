#include "evenkeel/balance/quality.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "balance/random_costs.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
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

/// The smallest largest sum over every way to deal the items from `next` on.
Cost best_largest_sum(const std::vector<Cost>& costs, std::size_t next, std::vector<Cost>& sums,
                      std::vector<std::size_t>& counts, std::size_t most_items) {
  if (next == costs.size()) return *std::ranges::max_element(sums);
  Cost best = std::numeric_limits<Cost>::max();
  for (std::size_t g = 0; g < sums.size(); ++g) {
    if (counts[g] == most_items) continue;
    sums[g] += costs[next];
    ++counts[g];
    best = std::min(best, best_largest_sum(costs, next + 1, sums, counts, most_items));
    sums[g] -= costs[next];
    --counts[g];
  }
  return best;
}

RC_GTEST_PROP(MaxSumLowerBound, no_partition_goes_below_it, ()) {
  const auto k = *rc::gen::inRange<std::size_t>(1, 4);
  const auto per_group = *rc::gen::inRange<std::size_t>(1, 3);
  const auto costs = *rc::gen::container<std::vector<Cost>>(
      k * per_group, rc::gen::resize(100, rc::gen::inRange<Cost>(0, 40)));
  std::vector<Cost> sums(k);
  std::vector<std::size_t> counts(k);
  const auto groups = static_cast<std::int64_t>(k);
  RC_ASSERT(max_sum_lower_bound(costs, groups) <= best_largest_sum(costs, 0, sums, counts, costs.size()));
  RC_ASSERT(max_sum_lower_bound(costs, groups, GroupSize::equal) <=
            best_largest_sum(costs, 0, sums, counts, per_group));
}

TEST(BalanceQuality, says_how_far_the_largest_sum_is_above_the_mean) {
  EXPECT_EQ(balance_quality(std::vector<Cost>{6, 12, 12}), (BalanceQuality{6, 12, 10.0, 1.2}));
}

TEST(BalanceQuality, nothing_and_zeros_are_perfectly_even) {
  EXPECT_EQ(balance_quality({}), BalanceQuality{});
  EXPECT_EQ(balance_quality(std::vector<Cost>{0, 0}), (BalanceQuality{0, 0, 0.0, 1.0}));
}

}  // namespace
}  // namespace evenkeel
