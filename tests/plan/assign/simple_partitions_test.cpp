#include "plan/assign/dp_assignment.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "balance/random_costs.hpp"

namespace evenkeel {
namespace {

using Groups = std::vector<std::vector<Item>>;

TEST(ContiguousRuns, gives_the_first_runs_one_more) {
  EXPECT_EQ(contiguous_runs(5, 3).to_vectors(), (Groups{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(contiguous_runs(1, 3).to_vectors(), (Groups{{0}, {}, {}}));
  EXPECT_EQ(contiguous_runs(0, 1).to_vectors(), (Groups{{}}));
}

// ROLL's document: sorted to 1, 3, 5, 6, 6, 7, 8, 8 and cut into the shards 1, 5, 6, 8 and 3, 6, 7, 8.
TEST(SortedStride, splits_rolls_example_into_its_two_shards) {
  EXPECT_EQ(sorted_stride(std::vector<std::int64_t>{7, 6, 8, 5, 1, 3, 8, 6}, 2).to_vectors(),
            (Groups{{4, 3, 7, 2}, {5, 1, 0, 6}}));
}

TEST(SortedStride, keeps_the_order_of_equal_lengths) {
  EXPECT_EQ(sorted_stride(std::vector<std::int64_t>{2, 2, 2, 2, 1}, 2).to_vectors(),
            (Groups{{4, 1, 3}, {0, 2}}));
}

RC_GTEST_PROP(SortedStride, assigns_every_item_once_in_counts_that_differ_by_one, ()) {
  const std::vector<std::int64_t> lengths = *cost_lists(40);
  const auto k = *rc::gen::inRange<std::int64_t>(1, 9);
  const Partition parts = sorted_stride(lengths, k);
  RC_ASSERT(parts.size() == k);
  RC_ASSERT(holds_every_item_once(parts, lengths.size()));
  RC_ASSERT(count_spread(parts) <= 1);
}

}  // namespace
}  // namespace evenkeel
