#include "evenkeel/balance/partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Partition, groups_are_runs_of_the_item_array) {
  const Partition partition({2, 0, 1}, {0, 2, 2, 3});
  EXPECT_EQ(partition.size(), 3);
  EXPECT_EQ(partition.num_items(), 3);
  EXPECT_THAT(partition[0], ElementsAre(2, 0));
  EXPECT_THAT(partition[1], IsEmpty());
  EXPECT_THAT(partition[2], ElementsAre(1));
}

TEST(Partition, lists_of_groups_make_the_same_value) {
  const std::vector<std::vector<Item>> groups = {{2, 0}, {}, {1}};
  EXPECT_EQ(Partition{groups}, Partition({2, 0, 1}, {0, 2, 2, 3}));
  EXPECT_EQ(Partition{groups}.to_vectors(), groups);
}

TEST(Partition, an_empty_one_has_no_groups) {
  EXPECT_EQ(Partition{}.size(), 0);
  EXPECT_THAT(Partition{}.to_vectors(), IsEmpty());
}

TEST(Partition, sorting_items_keeps_the_order_of_groups) {
  EXPECT_THAT(Partition({5, 3, 4, 2, 0}, {0, 3, 5}).with_sorted_items().to_vectors(),
              ElementsAre(ElementsAre(3, 4, 5), ElementsAre(0, 2)));
}

TEST(Partition, sorting_also_works_for_missing_or_repeated_items) {
  EXPECT_THAT(Partition({7, 2, 9}, {0, 2, 3}).with_sorted_items().to_vectors(),
              ElementsAre(ElementsAre(2, 7), ElementsAre(9)));
  EXPECT_THAT(Partition({2, 0, 2}, {0, 0, 3}).with_sorted_items().to_vectors(),
              ElementsAre(IsEmpty(), ElementsAre(0, 2, 2)));
}

TEST(Partition, the_order_of_groups_is_part_of_the_value) {
  EXPECT_NE(Partition({0, 1}, {0, 1, 2}), Partition({1, 0}, {0, 1, 2}));
}

TEST(Partition, offsets_must_run_from_zero_to_the_number_of_items) {
  EXPECT_THROW(Partition({0, 1}, {}), InputError);
  EXPECT_THROW(Partition({0, 1}, {1, 2}), InputError);
  EXPECT_THROW(Partition({0, 1}, {0, 1}), InputError);
}

TEST(Partition, falling_offsets_are_an_error_that_names_the_group) {
  try {
    Partition({0, 1}, {0, 2, 1, 2});
    FAIL() << "falling offsets must throw";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("from 2 to 1 at group 1"));
  }
}

TEST(GroupSums, add_up_the_costs_of_each_group) {
  const std::vector<Cost> costs = {10, 20, 30};
  EXPECT_THAT(group_sums(Partition({2, 0, 1}, {0, 2, 2, 3}), costs), ElementsAre(40, 0, 20));
}

}  // namespace
}  // namespace evenkeel
