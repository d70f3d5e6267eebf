#include "evenkeel/plan/batch_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;

std::vector<std::int64_t> whole_step(BatchSchedule& schedule, std::int64_t step, int num_ranks) {
  std::vector<std::int64_t> positions;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::vector<std::int64_t> share = schedule.share_of(step, rank, num_ranks);
    positions.insert(positions.end(), share.begin(), share.end());
  }
  return positions;
}

TEST(BatchSchedule, divides_the_source_in_order_and_keeps_the_smaller_last_batch) {
  BatchSchedule schedule(10, {4, 1, false, 1, false});
  EXPECT_EQ(schedule.num_steps(), 3);
  EXPECT_THAT(whole_step(schedule, 0, 3), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(whole_step(schedule, 2, 3), ElementsAre(8, 9));
  EXPECT_EQ(schedule.size_of(2), 2);
}

TEST(BatchSchedule, drop_last_omits_the_incomplete_batch) {
  const BatchSchedule schedule(10, {4, 2, false, 1, true});
  EXPECT_EQ(schedule.steps_per_epoch(), 2);
  EXPECT_EQ(schedule.num_steps(), 4);
}

TEST(BatchSchedule, shares_differ_by_at_most_one_sample) {
  BatchSchedule schedule(10, {10, 1, false, 1, false});
  EXPECT_THAT(schedule.share_of(0, 0, 4), ElementsAre(0, 1, 2));
  EXPECT_THAT(schedule.share_of(0, 1, 4), ElementsAre(3, 4, 5));
  EXPECT_THAT(schedule.share_of(0, 2, 4), ElementsAre(6, 7));
  EXPECT_THAT(schedule.share_of(0, 3, 4), ElementsAre(8, 9));
}

RC_GTEST_PROP(BatchSchedule, every_epoch_has_every_sample_exactly_once, ()) {
  const ScheduleSettings settings{*rc::gen::inRange<std::int64_t>(1, 30),
                                  *rc::gen::inRange<std::int64_t>(1, 4), *rc::gen::arbitrary<bool>(),
                                  *rc::gen::arbitrary<std::uint64_t>(), false};
  const auto samples = *rc::gen::inRange<std::int64_t>(1, 60);
  const int ranks = *rc::gen::inRange(1, 9);
  BatchSchedule schedule(samples, settings);
  std::map<std::int64_t, std::int64_t> seen;
  for (std::int64_t step = 0; step < schedule.num_steps(); ++step) {
    const std::vector<std::int64_t> positions = whole_step(schedule, step, ranks);
    RC_ASSERT(static_cast<std::int64_t>(positions.size()) == schedule.size_of(step));
    for (const std::int64_t position : positions) ++seen[position];
  }
  RC_ASSERT(static_cast<std::int64_t>(seen.size()) == samples);
  RC_ASSERT(std::ranges::all_of(seen, [&](const auto& s) { return s.second == settings.epochs; }));
}

RC_GTEST_PROP(BatchSchedule, a_steps_samples_do_not_depend_on_the_rank_count, ()) {
  const ScheduleSettings settings{7, 2, *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<std::uint64_t>(),
                                  false};
  BatchSchedule schedule(23, settings);
  const auto step = *rc::gen::inRange<std::int64_t>(0, schedule.num_steps());
  RC_ASSERT(whole_step(schedule, step, *rc::gen::inRange(1, 12)) == whole_step(schedule, step, 1));
}

TEST(BatchSchedule, epochs_are_shuffled_differently_and_reproducibly) {
  BatchSchedule schedule(50, {50, 2, true, 9, false});
  const std::vector<std::int64_t> first = whole_step(schedule, 0, 1);
  const std::vector<std::int64_t> second = whole_step(schedule, 1, 1);
  EXPECT_NE(first, second);
  EXPECT_EQ(whole_step(schedule, 0, 1), first);
  BatchSchedule other_seed(50, {50, 2, true, 10, false});
  EXPECT_NE(whole_step(other_seed, 0, 1), first);
}

TEST(BatchSchedule, the_shuffle_never_changes) {
  BatchSchedule schedule(8, {8, 1, true, 1, false});
  EXPECT_THAT(whole_step(schedule, 0, 1), ElementsAre(0, 2, 6, 1, 3, 7, 5, 4));
}

TEST(BatchSchedule, settings_without_a_possible_step_are_refused) {
  EXPECT_THROW(BatchSchedule(0, {4, 1, false, 1, false}), InputError);
  EXPECT_THROW(BatchSchedule(3, {4, 1, false, 1, true}), InputError);
  EXPECT_THROW(BatchSchedule(3, {0, 1, false, 1, false}), ConfigError);
  EXPECT_THROW(BatchSchedule(3, {1, 0, false, 1, false}), ConfigError);
}

TEST(BatchSchedule, more_steps_than_can_be_counted_are_refused) {
  constexpr std::int64_t samples = std::int64_t{1} << 40;
  EXPECT_THROW(BatchSchedule(samples, {1, std::int64_t{1} << 31, false, 1, false}), ConfigError);
  EXPECT_EQ(BatchSchedule(samples, {1, 1 << 22, false, 1, false}).num_steps(), std::int64_t{1} << 62);
}

// Only if contracts are checked.
#if EVENKEEL_ASSERTION_LEVEL > 0
TEST(BatchScheduleDeathTest, a_step_out_of_range_is_reported_with_its_place) {
  const BatchSchedule schedule(10, {2, 1, false, 1, false});
  EXPECT_DEATH(
      (void)schedule.size_of(7),
      "precondition violated: 0 <= step && step < num_steps\\(\\) \\(step = 7, num_steps\\(\\) = 5\\) "
      "at src/plan/schedule/batch_schedule\\.cpp:[0-9]+ in size_of\n");
}

TEST(BatchScheduleDeathTest, functions_in_public_headers_are_checked_too) {
  const Partition partition;
  EXPECT_DEATH((void)partition[0],
               "0 <= g && g < size\\(\\) \\(g = 0, size\\(\\) = 0\\) at "
               "include/evenkeel/balance/partition\\.hpp:[0-9]+ in operator");
}
#endif

}  // namespace
}  // namespace evenkeel
