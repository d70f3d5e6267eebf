#include "evenkeel/balance/karmarkar_karp.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/document_lengths.hpp"
#include "balance/random_costs.hpp"
#include "balance/reference_karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using test::document_lengths;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The lengths with which MindSpeed-RL's documentation of the dynamic batch size explains its partitions.
TEST(KarmarkarKarp, the_documents_example_is_at_least_as_even_as_the_document_says) {
  const Partition stated{std::vector<std::vector<Item>>{{0, 5}, {1, 6}, {2, 3}, {4, 7}}};
  EXPECT_EQ(largest_sum(stated, document_lengths), 8);
  EXPECT_LE(largest_sum(karmarkar_karp(document_lengths, 4), document_lengths), 8);
}

TEST(KarmarkarKarp, the_documents_example_gives_the_references_groups_in_its_order) {
  EXPECT_THAT(karmarkar_karp(document_lengths, 4).to_vectors(),
              ElementsAre(ElementsAre(1, 6), ElementsAre(7, 4, 0), ElementsAre(3, 2), ElementsAre(5)));
}

TEST(KarmarkarKarp, with_equal_counts_the_document_gets_its_own_partition) {
  const Partition partition = karmarkar_karp(document_lengths, 4, GroupSize::equal);
  EXPECT_THAT(partition.to_vectors(),
              ElementsAre(ElementsAre(6, 1), ElementsAre(5, 0), ElementsAre(3, 2), ElementsAre(7, 4)));
  EXPECT_THAT(partition.with_sorted_items().to_vectors(),
              testing::UnorderedElementsAre(ElementsAre(0, 5), ElementsAre(1, 6), ElementsAre(2, 3),
                                            ElementsAre(4, 7)));
}

TEST(KarmarkarKarp, the_textbook_example_of_two_way_differencing_ends_with_a_difference_of_two) {
  const std::vector<Cost> costs = {8, 7, 6, 5, 4};
  EXPECT_THAT(group_sums(karmarkar_karp(costs, 2), costs), ElementsAre(16, 14));
}

TEST(KarmarkarKarp, no_items_leave_every_group_empty) {
  for (const GroupSize group_size : {GroupSize::free, GroupSize::equal}) {
    EXPECT_THAT(karmarkar_karp({}, 3, group_size).to_vectors(), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
  }
}

TEST(KarmarkarKarp, fewer_items_than_groups_leave_the_last_groups_empty) {
  const std::vector<Cost> costs = {5, 1, 3};
  for (const GroupSize group_size : {GroupSize::free, GroupSize::equal}) {
    EXPECT_THAT(karmarkar_karp(costs, 5, group_size).to_vectors(),
                ElementsAre(ElementsAre(0), ElementsAre(2), ElementsAre(1), IsEmpty(), IsEmpty()));
  }
}

TEST(KarmarkarKarp, one_group_gets_every_item_heaviest_first) {
  EXPECT_THAT(karmarkar_karp(std::vector<Cost>{3, 9, 9, 0}, 1).to_vectors(),
              ElementsAre(ElementsAre(2, 1, 0, 3)));
}

TEST(KarmarkarKarp, equal_counts_differ_by_one_when_k_does_not_divide_n) {
  const Partition partition = karmarkar_karp(std::vector<Cost>{5, 1, 3}, 2, GroupSize::equal);
  EXPECT_TRUE(holds_every_item_once(partition, 3));
  EXPECT_EQ(count_spread(partition), 1);
}

TEST(KarmarkarKarp, a_negative_cost_is_an_error_that_names_the_item) {
  try {
    (void)karmarkar_karp(std::vector<Cost>{4, -2}, 2);
    FAIL() << "a negative cost must throw";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("item 1"));
    EXPECT_THAT(error.what(), HasSubstr("-2"));
  }
}

TEST(KarmarkarKarp, no_groups_are_an_error) {
  EXPECT_THROW((void)karmarkar_karp(std::vector<Cost>{1}, 0), InputError);
  EXPECT_THROW((void)karmarkar_karp({}, -1), InputError);
}

TEST(KarmarkarKarp, costs_may_add_up_to_just_below_two_to_the_62) {
  const Cost half = Cost{1} << 61;
  EXPECT_THAT(karmarkar_karp(std::vector<Cost>{half, half - 1}, 2).to_vectors(),
              ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_THROW((void)karmarkar_karp(std::vector<Cost>{half, half}, 2), InputError);
}

void expect_equal_to_the_reference(const std::vector<Cost>& costs, std::int64_t k) {
  for (const GroupSize group_size : {GroupSize::free, GroupSize::equal}) {
    RC_ASSERT(karmarkar_karp(costs, k, group_size) == reference_karmarkar_karp(costs, k, group_size));
  }
}

RC_GTEST_PROP(KarmarkarKarp, equals_the_plain_method_in_groups_items_and_order, ()) {
  expect_equal_to_the_reference(*cost_lists(60),
                                *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 12)));
}

RC_GTEST_PROP(KarmarkarKarp, equals_the_plain_method_for_many_groups, ()) {
  expect_equal_to_the_reference(*cost_lists(300),
                                *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 129)));
}

RC_GTEST_PROP(KarmarkarKarp, equal_counts_hold_every_item_once_and_differ_by_one_at_most, ()) {
  const std::vector<Cost> costs = *cost_lists(200);
  const Partition partition =
      karmarkar_karp(costs, *rc::gen::resize(100, rc::gen::inRange<std::int64_t>(1, 40)), GroupSize::equal);
  RC_ASSERT(holds_every_item_once(partition, costs.size()));
  RC_ASSERT(count_spread(partition) <= 1);
}

RC_GTEST_PROP(KarmarkarKarp, groups_come_heaviest_first, ()) {
  const std::vector<Cost> costs = *cost_lists(200);
  const Partition partition = karmarkar_karp(costs, *rc::gen::inRange<std::int64_t>(1, 40));
  RC_ASSERT(std::ranges::is_sorted(group_sums(partition, costs), std::ranges::greater{}));
}

}  // namespace
}  // namespace evenkeel
