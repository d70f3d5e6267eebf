#include "plan/transfer/restore_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/random_costs.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Partition groups(const std::vector<std::vector<Item>>& of) {
  return Partition(of);
}

template <typename Act>
std::string input_error_of(Act act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(InverseOrder, gives_the_position_of_each_item) {
  EXPECT_THAT(inverse_order(std::vector<Item>{2, 0, 1}), ElementsAre(1, 2, 0));
  EXPECT_THAT(inverse_order(std::vector<Item>{}), IsEmpty());
}

// The inverse order that MindSpeed-RL's document gives for its partitions [[0,5],[1,6],[2,3],[4,7]].
TEST(RestoreOrder, puts_the_results_of_mindspeeds_micro_batches_back) {
  const std::vector<int> results{10, 15, 11, 16, 12, 13, 14, 17};
  EXPECT_THAT(restore_order<int>(groups({{0, 5}, {1, 6}, {2, 3}, {4, 7}}), results),
              ElementsAre(10, 11, 12, 13, 14, 15, 16, 17));
}

TEST(RestoreOrder, skips_empty_groups_and_works_for_any_type) {
  const std::vector<std::string> results{"c", "a", "b"};
  EXPECT_THAT(restore_order<std::string>(groups({{2, 0}, {}, {1}}), results), ElementsAre("a", "b", "c"));
}

TEST(RestoreOrder, refuses_another_number_of_results_and_names_both) {
  const std::vector<int> results{5, 6, 7};
  EXPECT_THAT(input_error_of([&] {
                (void)restore_order<int>(groups({{0}, {1}}), results);
              }),
              HasSubstr("there are 3 for 2 samples"));
}

TEST(InverseOrder, refuses_lists_that_are_not_permutations) {
  EXPECT_THAT(input_error_of([] {
                (void)inverse_order(std::vector<Item>{0, 2});
              }),
              HasSubstr("names item 2, but there are 2 items"));
  EXPECT_THAT(input_error_of([] {
                (void)inverse_order(std::vector<Item>{-1, 0});
              }),
              HasSubstr("names item -1, but there are 2 items"));
  EXPECT_THAT(input_error_of([] {
                (void)inverse_order(std::vector<Item>{1, 1});
              }),
              HasSubstr("item 1 twice"));
}

RC_GTEST_PROP(RestoreOrder, undoes_any_partition, ()) {
  const std::vector<Cost> costs = *cost_lists(40);
  const Partition partition = karmarkar_karp(costs, *rc::gen::inRange<std::int64_t>(1, 9));
  std::vector<Cost> handed_out;
  for (const Item item : partition.items()) handed_out.push_back(costs[static_cast<std::size_t>(item)]);
  RC_ASSERT(restore_order<Cost>(partition, handed_out) == costs);
}

}  // namespace
}  // namespace evenkeel
