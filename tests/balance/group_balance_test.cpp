#include "balance/groups/group_balance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Keys = std::vector<std::uint64_t>;

TEST(BalanceWholeGroups, groups_stay_together_and_parts_get_equal_numbers_of_them) {
  const std::vector<Cost> costs(12, 7);
  const Keys keys = {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3};
  EXPECT_THAT(balance_whole_groups(costs, keys, 2).to_vectors(),
              ElementsAre(ElementsAre(0, 1, 2, 9, 10, 11), ElementsAre(3, 4, 5, 6, 7, 8)));
}

// The reference counts {0} and {2} as two groups here and separates them.
TEST(BalanceWholeGroups, samples_of_a_group_need_not_be_adjacent) {
  EXPECT_THAT(balance_whole_groups(std::vector<Cost>{1, 1, 1}, Keys{0, 1, 0}, 3).to_vectors(),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1), IsEmpty()));
}

// The reference rejects this.
TEST(BalanceWholeGroups, the_number_of_groups_need_not_be_a_multiple_of_the_parts) {
  EXPECT_THAT(balance_whole_groups(std::vector<Cost>{4, 3, 2}, Keys{0, 1, 2}, 2).to_vectors(),
              UnorderedElementsAre(ElementsAre(0), ElementsAre(1, 2)));
}

TEST(BalanceWholeGroups, free_counts_balance_better_than_equal_ones) {
  const std::vector<Cost> costs = {9, 3, 3, 3};
  const Keys keys = {5, 6, 7, 8};
  EXPECT_EQ(largest_sum(balance_whole_groups(costs, keys, 2), costs), 12);
  EXPECT_EQ(largest_sum(balance_whole_groups(costs, keys, 2, GroupSize::free), costs), 9);
}

TEST(BalanceWholeGroups, no_samples_leave_every_part_empty) {
  EXPECT_THAT(balance_whole_groups({}, {}, 2).to_vectors(), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(BalanceWholeGroups, bad_input_is_an_error) {
  EXPECT_THROW((void)balance_whole_groups(std::vector<Cost>{4, 3}, Keys{0}, 1), InputError);
  EXPECT_THROW((void)balance_whole_groups(std::vector<Cost>{4}, Keys{0}, 0), InputError);
  EXPECT_THROW((void)balance_whole_groups(std::vector<Cost>{4, -3}, Keys{0, 0}, 1), InputError);
}

RC_GTEST_PROP(BalanceWholeGroups, every_group_is_in_one_part_only, ()) {
  const std::vector<Cost> costs = *cost_lists(60);
  const auto keys = *rc::gen::container<Keys>(costs.size(), rc::gen::inRange<std::uint64_t>(0, 12));
  const auto k = *rc::gen::inRange<std::int64_t>(1, 10);
  const Partition parts = balance_whole_groups(costs, keys, k);
  RC_ASSERT(parts.size() == k);
  RC_ASSERT(holds_every_item_once(parts, costs.size()));
  std::map<std::uint64_t, std::int64_t> part_of;
  for (std::int64_t part = 0; part < k; ++part) {
    for (const Item item : parts[part]) {
      const auto entry = part_of.try_emplace(keys[static_cast<std::size_t>(item)], part).first;
      RC_ASSERT(entry->second == part);
    }
  }
}

}  // namespace
}  // namespace evenkeel
