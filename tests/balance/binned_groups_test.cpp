#include "balance/bins/binned_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "balance/bins/capped_partition.hpp"
#include "balance/partition/automatic.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Sizes = std::vector<std::int64_t>;

struct Binned {
  std::vector<std::int64_t> bins;  // of each group
  Cost end = 0;
};

Binned binned(const Partition& partition, const std::vector<Cost>& costs, const Sizes& sizes,
              const BinnedGroups& groups) {
  Binned result;
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    Sizes own;
    for (const Item item : partition[g]) own.push_back(sizes[static_cast<std::size_t>(item)]);
    const std::int64_t needed = first_fit_decreasing(own, groups.limits).size();
    result.bins.push_back(groups.round_up_num_bins(needed));
  }
  const std::vector<Cost> sums = group_sums(partition, costs);
  for (std::size_t g = 0; g < sums.size(); ++g) {
    const std::int64_t bins = groups.equal_bins ? std::ranges::max(result.bins) : result.bins[g];
    result.end = std::max(result.end, sums[g] + bins * groups.bin_cost);
  }
  return result;
}

TEST(BalanceBinnedItems, fewer_bins_are_made_if_they_cost_more_than_an_uneven_partition) {
  const std::vector<Cost> costs = {9, 5, 4};
  const Sizes sizes = {1, 4, 4};
  BinnedGroups groups{.groups = 2, .limits = {.max_size = 6}, .bin_cost = 3};
  EXPECT_THAT(group_sums(balance_binned_items(costs, sizes, groups), costs), UnorderedElementsAre(9, 9));
  groups.bin_cost = 5;
  EXPECT_THAT(group_sums(balance_binned_items(costs, sizes, groups), costs), UnorderedElementsAre(13, 5));
}

TEST(BalanceBinnedItems, fewer_bins_than_the_required_number_do_not_help) {
  const std::vector<Cost> costs = {9, 5, 4};
  const Sizes sizes = {1, 4, 4};
  for (const BinnedGroups& groups : {BinnedGroups{.least_bins = 2}, BinnedGroups{.multiple_of = 2}}) {
    BinnedGroups with_cost = groups;
    with_cost.groups = 2;
    with_cost.limits.max_size = 6;
    with_cost.bin_cost = 5;
    const Partition partition = balance_binned_items(costs, sizes, with_cost);
    EXPECT_THAT(group_sums(partition, costs), UnorderedElementsAre(9, 9));
  }
}

TEST(BalanceBinnedItems, a_group_with_more_bins_gets_less_work_if_numbers_of_bins_may_differ) {
  const std::vector<Cost> costs = {20, 6, 6, 6};
  const Sizes sizes = {1, 4, 4, 4};
  BinnedGroups groups{.groups = 2, .limits = {.max_size = 6}, .bin_cost = 4};
  const auto end = [&] {
    return binned(balance_binned_items(costs, sizes, groups), costs, sizes, groups).end;
  };
  EXPECT_EQ(end(), 32);  // {20} and {6, 6, 6}, with three bins each
  groups.equal_bins = false;
  EXPECT_EQ(end(), 30);  // the second has three bins at 4 each
}

// The items need 98.4% of the capacity of their bins, and costs grow faster than sizes.
TEST(BalanceBinnedItems, groups_are_even_even_if_their_bins_are_nearly_full) {
  const auto expect_even = [](std::int64_t items, std::int64_t groups, std::int64_t bins) {
    Sizes sizes;
    std::vector<Cost> costs;
    for (std::int64_t i = 0; i < items; ++i) {
      const std::int64_t uniform = i * 7919 % items * 2048 / items;
      sizes.push_back(200 + uniform * uniform * uniform / 2'500'000);
      costs.push_back(24576 * sizes.back() + sizes.back() * sizes.back());
    }
    const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    const BinnedGroups shape{.groups = groups,
                             .limits = {.max_size = all / groups / bins * 1000 / 984},
                             .bin_cost = std::int64_t{24576} * 2048};
    const Partition partition = balance_binned_items(costs, sizes, shape);
    EXPECT_EQ(std::ranges::max(binned(partition, costs, sizes, shape).bins), bins);
    const Cost mean = std::accumulate(costs.begin(), costs.end(), Cost{0}) / groups;
    EXPECT_LE(std::ranges::max(group_sums(partition, costs)), mean + mean / 1000);
  };
  expect_even(2048, 64, 1);
  expect_even(256, 32, 2);
}

TEST(BalanceBinnedItems, no_items_leave_all_groups_empty) {
  const BinnedGroups groups{.groups = 2, .limits = {.max_size = 6}};
  EXPECT_THAT(balance_binned_items({}, Sizes{}, groups).to_vectors(), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(BalanceBinnedItems, an_item_above_the_limits_is_an_error) {
  const BinnedGroups groups{.groups = 2, .limits = {.max_size = 6}};
  EXPECT_THROW((void)balance_binned_items(std::vector<Cost>{1}, Sizes{7}, groups), LimitError);
}

RC_GTEST_PROP(BalanceBinnedItems, never_ends_later_than_balancing_without_bins, ()) {
  const auto sizes = *rc::gen::container<Sizes>(rc::gen::inRange<std::int64_t>(1, 60));
  const auto k = *rc::gen::inRange<std::int64_t>(1, 6);
  const BinnedGroups equal{.groups = k,
                           .limits = {.max_size = *rc::gen::inRange<std::int64_t>(60, 200),
                                      .max_items = *rc::gen::inRange<std::int64_t>(1, 9)},
                           .least_bins = *rc::gen::inRange<std::int64_t>(1, 3),
                           .multiple_of = *rc::gen::inRange<std::int64_t>(1, 3),
                           .bin_cost = *rc::gen::inRange<Cost>(0, 500)};
  std::vector<Cost> costs;
  for (const std::int64_t size : sizes) costs.push_back(size * 10 + size * size);
  const Partition partition = balance_binned_items(costs, sizes, equal);
  RC_ASSERT(holds_every_item_once(partition, sizes.size()));
  RC_ASSERT(partition == balance_binned_items(costs, sizes, equal));
  const Cost end = binned(partition, costs, sizes, equal).end;
  RC_ASSERT(end <= binned(balance_items(costs, k), costs, sizes, equal).end);

  BinnedGroups free = equal;
  free.equal_bins = false;
  RC_ASSERT(binned(balance_binned_items(costs, sizes, free), costs, sizes, free).end <= end);
}

}  // namespace
}  // namespace evenkeel
