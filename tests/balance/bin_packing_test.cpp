#include "evenkeel/balance/bin_packing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/fewest_bins.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Sizes = std::vector<std::int64_t>;

TEST(FirstFitDecreasing, each_item_goes_to_the_earliest_bin_with_room) {
  // 6 | 5 | 4 joins 5 (bin 1), because the bin of 6 has room for only 3; 3 joins 6.
  EXPECT_THAT(first_fit_decreasing(Sizes{3, 6, 4, 5}, {.max_size = 9}).to_vectors(),
              ElementsAre(ElementsAre(1, 0), ElementsAre(3, 2)));
}

TEST(BestFitDecreasing, each_item_goes_to_the_fullest_bin_with_room) {
  // 7 | 5 4, with 3 and 1 left: the last item fits both bins.
  const Sizes sizes = {7, 5, 4, 1};
  const BinLimits limits{.max_size = 10};
  EXPECT_THAT(first_fit_decreasing(sizes, limits).to_vectors(),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2)));
  EXPECT_THAT(best_fit_decreasing(sizes, limits).to_vectors(),
              ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3)));
}

TEST(ModifiedFirstFitDecreasing, puts_a_small_item_with_the_largest_other_beside_a_large_one) {
  // The bin of 11 has 9 left. The smallest item above a sixth of 20 is 4, and then 5 still fits, but 6 does
  // not. Taking 6 first would leave no room for anything.
  const Sizes sizes = {11, 10, 6, 5, 4, 4};
  const BinLimits limits{.max_size = 20};
  EXPECT_EQ(first_fit_decreasing(sizes, limits).size(), 3);
  EXPECT_EQ(best_fit_decreasing(sizes, limits).size(), 3);
  EXPECT_THAT(modified_first_fit_decreasing(sizes, limits).to_vectors(),
              ElementsAre(ElementsAre(0, 4, 3), ElementsAre(1, 2, 5)));
}

TEST(ModifiedFirstFitDecreasing, gives_every_large_item_the_largest_medium_one_that_fits_first) {
  // Items above a third of 12: 5 joins 7. No such item fits next to 9; 2 and 1 fill that bin.
  EXPECT_THAT(modified_first_fit_decreasing(Sizes{5, 7, 9, 2, 1}, {.max_size = 12}).to_vectors(),
              ElementsAre(ElementsAre(2, 3, 4), ElementsAre(1, 0)));
}

RC_GTEST_PROP(ModifiedFirstFitDecreasing, takes_at_most_71_60_of_the_fewest_bins_and_one, ()) {
  const Sizes sizes = *cost_lists(8);
  const BinLimits limits{.max_size = largest_of(sizes) + *rc::gen::inRange<std::int64_t>(0, 9)};
  const std::int64_t optimum = fewest_bins(sizes, limits);
  const std::int64_t bins = modified_first_fit_decreasing(sizes, limits).size();
  RC_ASSERT(bins >= optimum);
  RC_ASSERT(60 * bins <= 71 * optimum + 60);
}

TEST(PackBins, uses_the_named_algorithm) {
  const Sizes sizes = {7, 5, 4, 1};
  const BinLimits limits{.max_size = 10};
  EXPECT_EQ(pack_bins(sizes, limits, BinPacking::first_fit_decreasing), first_fit_decreasing(sizes, limits));
  EXPECT_EQ(pack_bins(sizes, limits, BinPacking::best_fit_decreasing), best_fit_decreasing(sizes, limits));
  const Sizes two_small = {11, 10, 6, 5, 4, 4};
  EXPECT_EQ(pack_bins(two_small, {.max_size = 20}, BinPacking::modified_first_fit_decreasing).size(), 2);
}

TEST(BinPacking, of_equal_sizes_the_smaller_item_goes_first) {
  for (const auto& pack : {first_fit_decreasing, best_fit_decreasing, modified_first_fit_decreasing}) {
    EXPECT_THAT(pack(Sizes{4, 4, 4}, {.max_size = 8}).to_vectors(),
                ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  }
}

TEST(BinPacking, a_bin_holds_no_more_items_than_allowed) {
  for (const auto& pack : {first_fit_decreasing, best_fit_decreasing, modified_first_fit_decreasing}) {
    EXPECT_THAT(pack(Sizes{1, 1, 1, 3}, {.max_size = 6, .max_items = 2}).to_vectors(),
                ElementsAre(ElementsAre(3, 0), ElementsAre(1, 2)));
  }
}

TEST(BinPacking, no_items_need_no_bins) {
  for (const auto& pack : {first_fit_decreasing, best_fit_decreasing, modified_first_fit_decreasing}) {
    EXPECT_EQ(pack({}, {.max_size = 1, .max_items = 0}).size(), 0);
  }
  EXPECT_EQ(min_bins_lower_bound({}, {.max_size = 1, .max_items = 0}), 0);
  EXPECT_EQ(balanced_bin_packing({}, 5).size(), 0);
}

TEST(BinPacking, an_item_above_the_limit_is_an_error_that_names_it) {
  for (const auto& pack : {first_fit_decreasing, best_fit_decreasing, modified_first_fit_decreasing}) {
    try {
      (void)pack(Sizes{3, 6, 7}, {.max_size = 5});
      FAIL() << "item 1 fits nowhere";
    } catch (const LimitError& error) {
      EXPECT_THAT(error.what(), HasSubstr("item 1 has size 6, above the limit of 5"));
    }
    EXPECT_THROW((void)pack(Sizes{0}, {.max_size = 5, .max_items = 0}), LimitError);
    EXPECT_THROW((void)pack(Sizes{-1}, {.max_size = 5}), InputError);
  }
}

RC_GTEST_PROP(BinPacking, every_item_is_in_one_bin_within_the_limits, ()) {
  const Sizes sizes = *cost_lists(120);
  const std::int64_t largest = largest_of(sizes);
  const BinLimits limits{largest + *rc::gen::inRange<std::int64_t>(0, 60),
                         *rc::gen::inRange<std::int64_t>(1, 20)};
  for (const auto& pack : {first_fit_decreasing, best_fit_decreasing, modified_first_fit_decreasing}) {
    const Partition bins = pack(sizes, limits);
    RC_ASSERT(holds_every_item_once(bins, sizes.size()));
    RC_ASSERT(keeps_limits(bins, sizes, limits));
  }
}

RC_GTEST_PROP(BinPacking, keeps_the_limit_on_items_with_counts, ()) {
  const Sizes sizes = *cost_lists(80);
  const Sizes counts = *rc::gen::container<Sizes>(sizes.size(), rc::gen::inRange<std::int64_t>(1, 9));
  const BinItems items{sizes, counts};
  const BinLimits limits{largest_of(sizes) + *rc::gen::inRange<std::int64_t>(0, 60),
                         *rc::gen::inRange<std::int64_t>(8, 30)};
  for (const auto& pack : {first_fit_decreasing, best_fit_decreasing, modified_first_fit_decreasing}) {
    const Partition bins = pack(items, limits);
    RC_ASSERT(holds_every_item_once(bins, sizes.size()));
    RC_ASSERT(keeps_limits(bins, items, limits));
    RC_ASSERT(bins.size() >= min_bins_lower_bound(items, limits));
    const Sizes ones(sizes.size(), 1);
    RC_ASSERT(pack({sizes, ones}, limits) == pack(sizes, limits));
  }
}

TEST(BinPacking, first_fit_looks_for_room_by_size_and_count_in_the_same_bin) {
  // The first bin has enough space left for the last item, but only the second also allows another item.
  const Sizes sizes = {5, 5, 4, 3};
  const Sizes counts = {4, 1, 4, 2};
  EXPECT_THAT(first_fit_decreasing({sizes, counts}, {.max_size = 8, .max_items = 5}).to_vectors(),
              ElementsAre(ElementsAre(0), ElementsAre(1, 3), ElementsAre(2)));
}

TEST(MinBinsLowerBound, items_with_more_than_half_of_the_count_cannot_share_a_bin) {
  const Sizes sizes(3, 1);
  const Sizes counts = {5, 5, 5};
  EXPECT_EQ(min_bins_lower_bound({sizes, counts}, {.max_items = 8}), 3);
}

TEST(MinBinsLowerBound, counts_sizes_and_items) {
  EXPECT_EQ(min_bins_lower_bound(Sizes{1, 2, 2, 5, 3, 7, 6, 3}, {.max_size = 12}), 3);
  EXPECT_EQ(min_bins_lower_bound(Sizes{1, 1, 1, 3}, {.max_size = 6, .max_items = 2}), 2);
  EXPECT_EQ(min_bins_lower_bound(Sizes{0, 0, 0}, {.max_size = 0}), 1);
}

TEST(MinBinsLowerBound, items_with_more_than_half_of_the_size_cannot_share_a_bin) {
  EXPECT_EQ(min_bins_lower_bound(Sizes{6, 6, 6, 1}, {.max_size = 10}), 3);
  // No 4 fits next to a 7, so two 4s need another bin.
  EXPECT_EQ(min_bins_lower_bound(Sizes{7, 7, 7, 4, 4}, {.max_size = 10}), 4);
}

RC_GTEST_PROP(MinBinsLowerBound, no_packing_has_fewer_bins, ()) {
  const auto sizes = *rc::gen::resize(
      8, rc::gen::container<Sizes>(rc::gen::resize(100, rc::gen::inRange<std::int64_t>(0, 14))));
  const BinLimits limits{*rc::gen::resize(100, rc::gen::inRange<std::int64_t>(13, 30)),
                         *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 6))};
  const std::int64_t optimum = fewest_bins(sizes, limits);
  RC_ASSERT(min_bins_lower_bound(sizes, limits) <= optimum);
  RC_ASSERT(first_fit_decreasing(sizes, limits).size() >= optimum);
}

TEST(BalancedBinPacking, moves_items_from_heavy_to_light_bins) {
  // Best fit fills {7, 5} and {6, 3, 3} completely and leaves {2, 2, 1}; three moves even out the bins.
  EXPECT_THAT(balanced_bin_packing(Sizes{1, 2, 2, 5, 3, 7, 6, 3}, 12).to_vectors(),
              ElementsAre(ElementsAre(5, 2), ElementsAre(7, 4, 3), ElementsAre(1, 0, 6)));
}

TEST(BalancedBinPacking, an_item_above_the_limit_is_an_error_that_names_it) {
  try {
    (void)balanced_bin_packing(Sizes{3, 6}, 5);
    FAIL() << "item 1 fits nowhere";
  } catch (const LimitError& error) {
    EXPECT_THAT(error.what(), HasSubstr("item 1 has size 6"));
  }
}

RC_GTEST_PROP(BalancedBinPacking, no_bin_exceeds_the_limit, ()) {
  const Sizes sizes = *cost_lists(80);
  const std::int64_t largest = largest_of(sizes);
  const BinLimits limits{.max_size = largest + *rc::gen::inRange<std::int64_t>(0, 60)};
  const Partition bins = balanced_bin_packing(sizes, limits.max_size);
  RC_ASSERT(holds_every_item_once(bins, sizes.size()));
  RC_ASSERT(keeps_limits(bins, sizes, limits));
}

}  // namespace
}  // namespace evenkeel
