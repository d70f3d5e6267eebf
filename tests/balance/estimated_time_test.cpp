#include "balance/quality.hpp"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

using Costs = std::vector<std::vector<Cost>>;

TEST(EstimatedTime, ranks_wait_for_the_costliest_group_at_every_position) {
  EXPECT_EQ(estimated_time(Costs{{5, 1}, {3, 4}}, {.overhead = 10}), 5 + 4 + 2 * 10);
  EXPECT_EQ(estimated_time(Costs{{5}, {3, 4}}, {}), 5 + 4);
  EXPECT_EQ(estimated_time({}, {.overhead = 10, .stages = 4}), 0);
}

TEST(EstimatedTime, a_pipeline_fills_and_drains_at_the_pace_of_the_costliest_group) {
  EXPECT_EQ(estimated_time(Costs{{5, 1}}, {.overhead = 10, .stages = 4}), 6 + 2 * 10 + 3 * 15);
}

TEST(DefaultOverhead, is_the_work_of_256_tokens) {
  EXPECT_EQ(default_overhead(CostModel::tokens()), 256);
  EXPECT_EQ(default_overhead({0, 1}), 65536);
}

}  // namespace
}  // namespace evenkeel
