#include "balance/context/waves/waves.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "balance/context/context_problems.hpp"
#include "evenkeel/base/error.hpp"
#include "support/sanitized.hpp"

namespace evenkeel::context {
namespace {

TEST(ContextWaves, without_items_has_the_requested_number_of_empty_waves) {
  const OwnedContextProblem none = context_problem({}, 4, 100, 1, {});
  EXPECT_EQ(schedule_waves(none.problem(), 4, 5).waves, 8);
  EXPECT_TRUE(schedule_waves(none.problem(), 4, 5).tasks.empty());
}

TEST(ContextWaves, an_impossible_number_of_waves_is_an_error) {
  const OwnedContextProblem none = context_problem({}, 4, 100, 1, {});
  EXPECT_THROW((void)schedule_waves(none.problem(), 0, 1), InputError);
  EXPECT_THROW((void)schedule_waves(none.problem(), 1, -1), InputError);
}

TEST(ContextWaves, keeps_all_rules_on_random_problems) {
  for (std::uint64_t seed = 0; seed < 400; seed += testing_support::one_in) {
    const OwnedContextProblem made = random_context_problem(seed, 60, 20);
    const Problem problem = made.problem();
    const auto multiple_of = static_cast<std::int64_t>(1 + seed % 4);
    const auto min_waves = static_cast<std::int64_t>(seed % 7);
    const Schedule schedule = schedule_waves(problem, multiple_of, min_waves);
    ASSERT_EQ(fault_of(problem, schedule, true), "") << "seed " << seed;
    ASSERT_EQ(schedule.waves % multiple_of, 0) << "seed " << seed;
    ASSERT_GE(schedule.waves, min_waves) << "seed " << seed;
  }
}

// The bound for these is far below the time of a rank full of small items, because there are few small items.
TEST(ContextWaves, schedules_few_small_items_beside_long_ones) {
  const OwnedContextProblem made = random_context_problem(103818, 60, 20);
  ASSERT_EQ(fault_of(made.problem(), schedule_waves(made.problem()), true), "");
}

TEST(ContextWaves, ends_at_the_optimum_of_most_small_problems) {
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 8, 4);
    const Cost least = least_waves_end(made.problem());
    const Cost end = schedule_waves(made.problem()).end;
    ASSERT_LE(least, end) << "seed " << seed;
    ASSERT_LE(end, least + least / 5) << "seed " << seed;
    if (end == least) ++optimal;
  }
  EXPECT_GE(optimal, 280);
}

TEST(ContextWaves, end_near_the_bound_if_few_samples_have_most_of_the_work) {
  for (const std::int64_t num_samples : {512, 2048}) {
    const OwnedContextProblem made = long_tailed_problem(num_samples);
    const Cost bound = lower_bound(made.problem());
    EXPECT_LE(schedule_waves(made.problem()).end, bound + bound / 33) << num_samples;
  }
}

// A sequence of 100 tokens takes 10000 on one of 2 ranks and 15000 on both. A rank holds 10 of 60 sequences
// of 10 tokens, which take 100 each: 1000 can be done next to the long one, and 5000 remain for 2 ranks.
TEST(ContextWaves, of_short_items_cannot_fill_the_wave_of_a_long_one) {
  std::vector<std::int64_t> lengths(60, 10);
  lengths.push_back(100);
  const OwnedContextProblem made =
      context_problem(lengths, 2, 100, 0, {.inside_node = 200, .ranks_per_node = 2, .overlap = 0});
  EXPECT_EQ(lower_bound(made.problem()), 10000);
  EXPECT_EQ(schedule_waves(made.problem()).end, 12500);
}

// bench/tight_bound.py proves the bounds: only few of the long items can run in parallel in one wave.
TEST(ContextWaves, of_many_long_items_end_near_the_tight_bound) {
  struct Case {
    std::int64_t num_long;
    std::int64_t overlap;
    double bound;
  };
  for (const auto& [num_long, overlap, bound] :
       {Case{10, 0, 7.9409e9}, Case{12, 1000, 5.6028e9}, Case{20, 1000, 6.86e9}}) {
    const OwnedContextProblem made = many_long_items_problem(num_long, overlap);
    const Cost end = schedule_waves(made.problem()).end;
    EXPECT_GE(static_cast<double>(end), bound) << num_long << " " << overlap;
    EXPECT_LE(static_cast<double>(end), 1.01 * bound) << num_long << " " << overlap;
    EXPECT_GT(end, lower_bound(made.problem()) * 21 / 20) << num_long << " " << overlap;
  }
}

// Filling waves one by one used to end 1.7 times as late here as a grid of groups of one size.
TEST(ContextWaves, are_as_even_as_a_grid_if_items_are_short_relative_to_the_cap) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 1200; ++i)
    lengths.push_back(64 + (i * i * 7919) % (i % 10 == 0 ? 30000 : 4000));
  const OwnedContextProblem made =
      context_problem(lengths, 16, 40960, 24576,
                      {.inside_node = 333, .between_nodes = 2500, .ranks_per_node = 8, .overhead = 6291456});
  const Problem problem = made.problem();
  const Schedule schedule = schedule_waves(problem);
  EXPECT_LE(static_cast<double>(schedule.end), 1.02 * static_cast<double>(lower_bound(problem)));
}

// More items than are tried as a grid. They used to end 3.9 times as late when the first item of each wave
// got most of the ranks.
TEST(ContextWaves, of_very_many_short_items_end_near_the_bound) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 20000; ++i) lengths.push_back(1 + i * i * 7919 % 16383);
  const OwnedContextProblem made =
      context_problem(lengths, 64, 16384, 24576,
                      {.inside_node = 333, .between_nodes = 2500, .ranks_per_node = 8, .overhead = 6291456});
  const Problem problem = made.problem();
  EXPECT_LE(static_cast<double>(schedule_waves(problem).end),
            1.01 * static_cast<double>(lower_bound(problem)));
}

TEST(ContextWaves, are_in_descending_order_of_time_and_deterministic) {
  const OwnedContextProblem made = long_tailed_problem(300);
  const Problem problem = made.problem();
  const Schedule schedule = schedule_waves(problem);
  EXPECT_EQ(schedule_waves(problem), schedule);
  std::vector<Cost> times(static_cast<std::size_t>(schedule.waves));
  for (std::int64_t t = 0; t < schedule.items.size(); ++t) {
    const Task& task = schedule.tasks[static_cast<std::size_t>(t)];
    ContextWork work;
    for (const Item item : schedule.items[t]) work += problem.items[static_cast<std::size_t>(item)];
    Cost& time = times[static_cast<std::size_t>(task.wave)];
    time = std::max(time, time_on(work, task.size, problem.communication));
  }
  EXPECT_TRUE(std::ranges::is_sorted(times, std::ranges::greater{}));
}

TEST(ContextWaves, do_not_depend_on_the_common_speed_of_equally_fast_ranks) {
  const OwnedContextProblem plain = random_context_problem(7, 60, 20);
  OwnedContextProblem made = plain;
  made.speeds.assign(static_cast<std::size_t>(made.rest.ranks), 3);
  EXPECT_EQ(schedule_waves(made.problem()), schedule_waves(plain.problem()));
}

TEST(ContextWaves, with_speeds_keep_all_rules_on_random_problems) {
  for (std::uint64_t seed = 0; seed < 400; seed += testing_support::one_in) {
    const OwnedContextProblem made = with_random_speeds(random_context_problem(seed, 60, 20), seed);
    ASSERT_EQ(fault_of(made.problem(), schedule_waves(made.problem()), true), "") << "seed " << seed;
  }
}

TEST(ContextWaves, with_speeds_end_at_the_optimum_of_most_small_problems) {
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const OwnedContextProblem made = with_random_speeds(random_context_problem(seed, 8, 4), seed);
    const Cost least = least_waves_end(made.problem());
    const Cost end = schedule_waves(made.problem()).end;
    ASSERT_LE(least, end) << "seed " << seed;
    ASSERT_LE(end, least + least / 4) << "seed " << seed;
    if (end == least) ++optimal;
  }
  EXPECT_GE(optimal, 270);
}

// Two ranks, one half as fast: the slow one gets one of the three samples.
TEST(ContextWaves, give_a_slow_rank_less) {
  OwnedContextProblem made = context_problem({10, 10, 10}, 2, 20, 1, {});
  made.speeds = {5, 10};
  const Schedule schedule = schedule_waves(made.problem());
  EXPECT_EQ(schedule.waves, 1);
  const ContextWork item = made.problem().items[0];
  EXPECT_EQ(schedule.end, 2 * item.work);
}

/// Returns when a schedule ends with these speeds.
Cost end_with(const std::vector<std::int64_t>& speeds, OwnedContextProblem made, const Schedule& schedule) {
  made.speeds = speeds;
  const Problem problem = made.problem();
  std::vector<Cost> waves(static_cast<std::size_t>(schedule.waves));
  for (std::int64_t t = 0; t < schedule.items.size(); ++t) {
    const Task& task = schedule.tasks[static_cast<std::size_t>(t)];
    ContextWork work;
    for (const Item item : schedule.items[t]) work += problem.items[static_cast<std::size_t>(item)];
    Cost& wave = waves[static_cast<std::size_t>(task.wave)];
    wave = std::max(wave, time_of(problem, work, task.first, task.size));
  }
  return std::accumulate(waves.begin(), waves.end(), Cost{0});
}

OwnedContextProblem with_a_slow_node(OwnedContextProblem made) {
  made.speeds.assign(static_cast<std::size_t>(made.rest.ranks), 10);
  std::fill_n(made.speeds.begin(), 8, 5);
  return made;
}

TEST(ContextWaves, end_much_earlier_if_a_slow_node_is_known) {
  for (const std::int64_t num_samples : {512, 2048}) {
    const OwnedContextProblem alike = long_tailed_problem(num_samples);
    const OwnedContextProblem made = with_a_slow_node(alike);
    const Cost end = schedule_waves(made.problem()).end;
    EXPECT_LE(end, end_with(made.speeds, alike, schedule_waves(alike.problem())) * 3 / 4) << num_samples;
    EXPECT_LE(end, lower_bound(made.problem()) * 13 / 10) << num_samples;
  }
}

TEST(ContextWaves, end_near_the_bound_for_short_items_if_a_node_is_half_as_fast) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 2048; ++i) lengths.push_back(1 + i * i * 7919 % 16383);
  const OwnedContextProblem made = with_a_slow_node(
      context_problem(lengths, 64, 16384, 24576,
                      {.inside_node = 333, .between_nodes = 2500, .ranks_per_node = 8, .overhead = 6291456}));
  EXPECT_LE(static_cast<double>(schedule_waves(made.problem()).end),
            1.03 * static_cast<double>(lower_bound(made.problem())));
}

}  // namespace
}  // namespace evenkeel::context
