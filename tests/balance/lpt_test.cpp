#include "balance/partition/lpt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/document_lengths.hpp"
#include "balance/quality.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using test::document_lengths;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(LongestProcessingTime, of_equal_costs_the_larger_item_goes_first) {
  EXPECT_THAT(longest_processing_time(std::vector<Cost>{4, 4}, 1).to_vectors(),
              ElementsAre(ElementsAre(1, 0)));
}

TEST(LongestProcessingTime, groups_come_as_the_references_heap_holds_them) {
  EXPECT_THAT(longest_processing_time(document_lengths, 4).to_vectors(),
              ElementsAre(ElementsAre(5), ElementsAre(3, 2), ElementsAre(6, 1), ElementsAre(7, 4, 0)));
}

TEST(LongestProcessingTime, full_groups_come_in_the_order_they_filled_up) {
  EXPECT_THAT(longest_processing_time(document_lengths, 4, GroupSize::equal).to_vectors(),
              ElementsAre(ElementsAre(7, 4), ElementsAre(3, 2), ElementsAre(6, 1), ElementsAre(5, 0)));
}

// The reference runs out of groups here.
TEST(LongestProcessingTime, equal_counts_differ_by_one_when_k_does_not_divide_n) {
  const Partition partition = longest_processing_time(std::vector<Cost>{1, 1, 1}, 2, GroupSize::equal);
  EXPECT_TRUE(holds_every_item_once(partition, 3));
  EXPECT_EQ(count_spread(partition), 1);
}

TEST(LongestProcessingTime, fewer_items_than_groups_leave_groups_empty) {
  for (const GroupSize group_size : {GroupSize::free, GroupSize::equal}) {
    const Partition partition = longest_processing_time(std::vector<Cost>{5, 1}, 3, group_size);
    EXPECT_THAT(partition.to_vectors(),
                testing::UnorderedElementsAre(ElementsAre(0), ElementsAre(1), IsEmpty()));
  }
}

TEST(LongestProcessingTime, bad_input_is_an_error) {
  EXPECT_THROW((void)longest_processing_time(document_lengths, 0), InputError);
  EXPECT_THROW((void)longest_processing_time(std::vector<Cost>{-1}, 2), InputError);
}

RC_GTEST_PROP(LongestProcessingTime, equal_counts_hold_every_item_once_and_differ_by_one_at_most, ()) {
  const std::vector<Cost> costs = *cost_lists(150);
  const Partition partition =
      longest_processing_time(costs, *rc::gen::inRange<std::int64_t>(1, 40), GroupSize::equal);
  RC_ASSERT(holds_every_item_once(partition, costs.size()));
  RC_ASSERT(count_spread(partition) <= 1);
}

RC_GTEST_PROP(LongestProcessingTime, the_largest_sum_keeps_grahams_bound, ()) {
  const std::vector<Cost> costs = *cost_lists(150);
  const auto k = *rc::gen::inRange<std::int64_t>(1, 40);
  const Partition partition = longest_processing_time(costs, k);
  RC_ASSERT(holds_every_item_once(partition, costs.size()));
  // When the last item joined the heaviest group, that group was the lightest, so at most the mean of the
  // other items.
  const Cost largest = largest_of(costs);
  const Cost mean_or_more = max_sum_lower_bound(costs, k);
  RC_ASSERT(largest_sum(partition, costs) <= mean_or_more + largest - largest / k);
}

TEST(LongestProcessingTimeWithCap, a_group_that_would_overflow_is_closed_and_comes_first) {
  const std::vector<Cost> costs = {750, 1012, 806};
  EXPECT_THAT(longest_processing_time_with_cap(costs, 2, 1315).to_vectors(),
              ElementsAre(ElementsAre(2), ElementsAre(0), ElementsAre(1)));
}

TEST(LongestProcessingTimeWithCap, sums_may_reach_the_cap_exactly) {
  EXPECT_THAT(longest_processing_time_with_cap(std::vector<Cost>{4, 4, 4, 4}, 2, 8).to_vectors(),
              ElementsAre(ElementsAre(3, 1), ElementsAre(2, 0)));
}

// As in the reference; count_groups() reports such an item as an error instead.
TEST(LongestProcessingTimeWithCap, an_item_above_the_cap_is_alone_and_closes_an_empty_group) {
  EXPECT_THAT(longest_processing_time_with_cap(std::vector<Cost>{2}, 1, 1).to_vectors(),
              ElementsAre(IsEmpty(), ElementsAre(0)));
}

TEST(LongestProcessingTimeWithCap, no_items_need_no_groups) {
  EXPECT_EQ(longest_processing_time_with_cap({}, 0, 8).size(), 0);
  EXPECT_THROW((void)longest_processing_time_with_cap(std::vector<Cost>{3}, 0, 8), InputError);
}

RC_GTEST_PROP(LongestProcessingTimeWithCap, no_group_of_items_below_the_cap_exceeds_it, ()) {
  const std::vector<Cost> costs = *cost_lists(100);
  const Cost cap = largest_of(costs) + *rc::gen::inRange<Cost>(0, 50);
  const Partition partition =
      longest_processing_time_with_cap(costs, *rc::gen::inRange<std::int64_t>(1, 20), cap);
  RC_ASSERT(holds_every_item_once(partition, costs.size()));
  RC_ASSERT(largest_sum(partition, costs) <= cap);
}

}  // namespace
}  // namespace evenkeel
