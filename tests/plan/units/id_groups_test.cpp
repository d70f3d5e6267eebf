#include "plan/units/id_groups.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/ids.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing_support::ids;

const Partition three_groups({2, 0, 1}, {0, 2, 2, 3});

TEST(IdGroups, show_the_items_of_a_partition_as_ids) {
  const IdGroups<UnitId> groups(three_groups);
  EXPECT_EQ(groups.size(), 3);
  EXPECT_EQ(to_vector(groups[0]), ids<UnitId>({2, 0}));
  EXPECT_THAT(numbers_of(groups[1]), IsEmpty());
  EXPECT_EQ(to_vector(groups.ids()), ids<UnitId>({2, 0, 1}));
  EXPECT_EQ(groups.items(), three_groups);
}

TEST(IdGroups, made_from_lists_equal_those_of_the_partition) {
  const std::vector<std::vector<UnitId>> lists{ids<UnitId>({2, 0}), {}, ids<UnitId>({1})};
  EXPECT_EQ(IdGroups<UnitId>(lists), IdGroups<UnitId>(three_groups));
  EXPECT_THAT(IdGroups<UnitId>(std::vector<std::vector<UnitId>>{}).size(), 0);
  EXPECT_THAT(numbers_of(IdGroups<UnitId>(lists)[2]), ElementsAre(1));
}

}  // namespace
}  // namespace evenkeel
