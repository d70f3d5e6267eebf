#include "balance/context/speeds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace evenkeel::context {
namespace {

using RankSpeeds = std::vector<std::int64_t>;

TEST(Speeds, a_block_is_as_fast_as_its_slowest_rank) {
  const std::vector<std::int64_t> sizes{1, 2};
  const Speeds speeds(RankSpeeds{10, 5, 10, 4, 5}, 5, sizes);
  EXPECT_TRUE(speeds.are_unequal());
  EXPECT_EQ(speeds.block_time(100, 0, 0), 100);
  EXPECT_EQ(speeds.block_time(100, 1, 0), 200);
  EXPECT_EQ(speeds.block_time(100, 1, 1), 250);
  EXPECT_EQ(speeds.best_time(100, 1), 200);
  EXPECT_EQ(speeds.block_time(1, 1, 1), 3);   // rounded up
  EXPECT_EQ(speeds.work_in(100, 1, 1), 140);  // on ranks with speeds 10 and 4
  EXPECT_EQ(speeds.wasted_work(100, 0), 0);
  EXPECT_EQ(speeds.wasted_work(100, 1), 50);  // 10 waits for 5, instead of 4
  EXPECT_EQ(speeds.total_work_in(100), 340);
  EXPECT_EQ(speeds.mean_time_rounded_up(341), 101);
}

TEST(Speeds, equal_speeds_are_ignored) {
  const std::vector<std::int64_t> sizes{1, 2};
  for (const RankSpeeds& alike : {RankSpeeds{}, RankSpeeds{7, 7, 7}}) {
    const Speeds speeds(alike, 3, sizes);
    EXPECT_FALSE(speeds.are_unequal());
    EXPECT_EQ(speeds.block_time(100, 1, 0), 100);
    EXPECT_EQ(speeds.work_in(100, 1, 0), 200);
    EXPECT_EQ(speeds.mean_time_rounded_up(100), 34);
  }
}

TEST(Speeds, the_even_end_is_the_earliest_time_at_which_all_work_is_done) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 500; ++round) {
    const auto ranks = static_cast<std::size_t>(1 + random() % 6);
    RankSpeeds all;
    std::vector<Cost> starts;
    for (std::size_t r = 0; r < ranks; ++r) {
      all.push_back(1 + static_cast<std::int64_t>(random() % 5));
      starts.push_back(static_cast<Cost>(random() % 100));
    }
    const auto work = static_cast<Cost>(random() % 500);
    const std::vector<std::int64_t> sizes{1};
    const Speeds speeds(all, static_cast<std::int64_t>(ranks), sizes);
    const std::int64_t fastest = std::ranges::max(all);
    const auto is_done_by = [&](Cost end) {
      Cost done = 0;
      for (std::size_t r = 0; r < ranks; ++r) done += std::max<Cost>(0, end - starts[r]) * all[r];
      return end >= std::ranges::max(starts) && done >= work * fastest;
    };
    const Cost end = speeds.even_end(starts, work);
    ASSERT_TRUE(is_done_by(end)) << round;
    ASSERT_FALSE(end > 0 && is_done_by(end - 1)) << round;
  }
}

}  // namespace
}  // namespace evenkeel::context
