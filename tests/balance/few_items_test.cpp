#include "balance/context/task.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace evenkeel {
namespace {

using testing::ElementsAreArray;

std::vector<Item> listed(const ItemList& items) {
  return {items.begin(), items.end()};
}

TEST(ItemList, are_a_list_that_grows) {
  ItemList items;
  std::vector<Item> expected;
  EXPECT_TRUE(items.empty());
  for (Item item = 10; item > 0; --item) {
    items.push_back(item);
    expected.push_back(item);
    EXPECT_THAT(listed(items), ElementsAreArray(expected));
    EXPECT_EQ(items.size(), expected.size());
  }
}

TEST(ItemList, copies_and_moves_keep_the_items) {
  for (const Item most : {3, 4, 5, 9}) {
    ItemList items;
    std::vector<Item> expected;
    for (Item item = 0; item < most; ++item) {
      items.push_back(item);
      expected.push_back(item);
    }
    const ItemList copy = items;
    const ItemList moved = std::move(items);
    EXPECT_THAT(listed(copy), ElementsAreArray(expected));
    EXPECT_THAT(listed(moved), ElementsAreArray(expected));
  }
}

}  // namespace
}  // namespace evenkeel
