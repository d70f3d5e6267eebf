#include "balance/partition/item_order.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/random_costs.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
TEST(InverseOrder, puts_the_results_of_mindspeeds_micro_batches_back) {
  const Partition partition(std::vector<std::vector<Item>>{{0, 5}, {1, 6}, {2, 3}, {4, 7}});
  EXPECT_THAT(inverse_order(partition.items()), ElementsAre(0, 2, 4, 5, 6, 1, 3, 7));
}

TEST(InverseOrder, refuses_lists_that_are_not_permutations) {
  EXPECT_THAT(input_error_of([] {
                (void)inverse_order(std::vector<Item>{0, 2});
              }),
              HasSubstr("order[1]: is 2; it must be from 0 to 1"));
  EXPECT_THAT(input_error_of([] {
                (void)inverse_order(std::vector<Item>{-1, 0});
              }),
              HasSubstr("order[0]: is -1; it must be from 0 to 1"));
  EXPECT_THAT(input_error_of([] {
                (void)inverse_order(std::vector<Item>{1, 1});
              }),
              HasSubstr("order[1]: is 1, which is already at position 0"));
}

RC_GTEST_PROP(InverseOrder, undoes_any_partition, ()) {
  const Partition partition = karmarkar_karp(*cost_lists(40), *rc::gen::inRange<std::int64_t>(1, 9));
  const std::vector<std::int64_t> inverse = inverse_order(partition.items());
  RC_ASSERT(std::ssize(inverse) == partition.num_items());
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    RC_ASSERT(inverse[static_cast<std::size_t>(partition.items()[i])] == static_cast<std::int64_t>(i));
  }
}

}  // namespace
}  // namespace evenkeel
