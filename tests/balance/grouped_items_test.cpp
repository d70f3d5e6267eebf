#include "balance/groups/group_balance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(GroupedItems, are_in_their_named_groups_in_the_original_order) {
  const Partition groups =
      partition_by_group(std::vector<Item>{5, 9, 7, 2}, std::vector<std::int32_t>{2, 0, 2, 0}, 3);
  EXPECT_THAT(groups.to_vectors(), ElementsAre(ElementsAre(9, 2), IsEmpty(), ElementsAre(5, 7)));
}

TEST(GroupedItems, of_no_items_are_empty_groups) {
  EXPECT_THAT(partition_by_group({}, {}, 2).to_vectors(), ElementsAre(IsEmpty(), IsEmpty()));
}

}  // namespace
}  // namespace evenkeel
