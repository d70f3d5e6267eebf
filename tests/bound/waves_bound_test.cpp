#include "bound/waves_bound.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "balance/context/context_problems.hpp"
#include "balance/context/levels.hpp"
#include "balance/context/long_items.hpp"
#include "balance/context/schedule.hpp"
#include "balance/context/waves/waves.hpp"
#include "bound/heights.hpp"
#include "bound/sets.hpp"

namespace evenkeel::context {
namespace {

TEST(ContextWavesLowerBound, no_items_end_at_once) {
  EXPECT_EQ(waves_lower_bound(context_problem({}, 4, 100, 1, {}).problem()), 0);
}

TEST(ContextWavesLowerBound, short_items_cannot_fill_a_wave_of_a_long_one) {
  std::vector<std::int64_t> lengths(60, 10);
  lengths.push_back(100);
  OwnedContextProblem made =
      context_problem(lengths, 2, 100, 0, {.inside_node = 200, .ranks_per_node = 2, .overlap = 0});
  EXPECT_EQ(lower_bound(made.problem()), 10000);
  const Cost bound = waves_lower_bound(made.problem());
  EXPECT_GE(bound, 12450);
  EXPECT_LE(bound, 12500);
  EXPECT_EQ(schedule_waves(made.problem()).end, 12500);
}

TEST(ContextWavesLowerBound, long_items_that_do_not_fit_beside_each_other_need_waves_of_their_own) {
  const OwnedContextProblem made = context_problem(std::vector<std::int64_t>(6, 200), 3, 100, 0,
                                                   {.inside_node = 100, .ranks_per_node = 4, .overlap = 0});
  EXPECT_LT(lower_bound(made.problem()), 180000);
  EXPECT_EQ(waves_lower_bound(made.problem()), 180000);
  EXPECT_EQ(least_waves_end(made.problem()), 180000);
}

TEST(ContextWavesLowerBound, lower_waves_need_wider_groups) {
  const OwnedContextProblem made =
      context_problem({200, 200, 200}, 4, 100, 0, {.inside_node = 100, .ranks_per_node = 4, .overlap = 0});
  EXPECT_EQ(least_waves_end(made.problem()), 55000);
  EXPECT_EQ(waves_lower_bound(made.problem()), 55000);
}

TEST(ContextWavesLowerBound, is_near_the_optimum_of_few_long_items) {
  int near = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const OwnedContextProblem made = long_items_problem(seed);
    const Cost least = least_waves_end(made.problem());
    const Cost bound = waves_lower_bound(made.problem());
    ASSERT_LE(bound, least) << "seed " << seed;
    if (bound >= least - least / 100) ++near;
  }
  EXPECT_GE(near, 180);
}

TEST(ContextWavesLowerBound, of_any_sizes_is_no_later_than_the_optimum) {
  for (std::uint64_t seed = 1000; seed < 1300; ++seed) {
    const OwnedContextProblem made = with_any_sizes(random_context_problem(seed, 6, 7));
    ASSERT_LE(waves_lower_bound(made.problem()), least_waves_end(made.problem())) << "seed " << seed;
  }
}

TEST(ContextWavesLowerBound, is_near_the_end_of_many_long_items_in_few_waves) {
  for (const auto& [num_long, overlap] : {std::pair{10, 0}, {12, 1000}, {20, 1000}}) {
    const OwnedContextProblem made = many_long_items_problem(num_long, overlap);
    const Cost end = schedule_waves(made.problem()).end;
    const Cost bound = waves_lower_bound(made.problem());
    EXPECT_LE(bound, end) << num_long << " " << overlap;
    EXPECT_LE(end, bound + bound / 100) << num_long << " " << overlap;
    EXPECT_GT(end, lower_bound(made.problem()) * 21 / 20) << num_long << " " << overlap;
  }
}

TEST(WaveHeights, prove_no_more_than_the_optimum) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const OwnedContextProblem made = seed % 5 == 0   ? long_items_problem(seed)
                                     : seed % 5 == 1 ? random_context_problem(seed, 8, 4)
                                     : seed % 5 == 2 ? with_any_sizes(long_and_short_items_problem(seed))
                                                     : long_and_short_items_problem(seed);
    const Problem problem = made.problem();
    if (problem.items.empty()) continue;
    const Cost least = least_waves_end(problem);
    const Levels levels(problem);
    const Cost known = lower_bound(problem);
    for (const Cost at_least : {Cost{0}, known}) {
      const LongItems long_items(levels, at_least);
      ASSERT_EQ(bound_over_wave_heights(levels, long_items, least), least) << "seed " << seed;
    }
    if (bound_over_wave_heights(levels, LongItems(levels, known), known) > known) ++better;
  }
  EXPECT_GE(better, 12);
}

TEST(WaveSets, are_shared_out_at_least_cost) {
  EXPECT_EQ(cheapest_sharing_out({0}), 0);
  EXPECT_EQ(cheapest_sharing_out({0, 5, 6, 9}), 9);
  EXPECT_EQ(cheapest_sharing_out({0, 5, 6, 12}), 11);
  EXPECT_EQ(cheapest_sharing_out({0, 5, 6, 12, 7, 8, 14, 30}), 14);  // 0 and 2 together, 1 alone
}

TEST(ContextWavesLowerBound, is_no_later_than_the_optimum_and_not_below_that_of_all_schedules) {
  int better = 0;
  for (std::uint64_t seed = 1000; seed < 1400; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 8, 4);
    const Cost bound = waves_lower_bound(made.problem());
    ASSERT_LE(bound, least_waves_end(made.problem())) << "seed " << seed;
    ASSERT_GE(bound, lower_bound(made.problem())) << "seed " << seed;
    if (bound > lower_bound(made.problem())) ++better;
  }
  EXPECT_GE(better, 30);
}

}  // namespace
}  // namespace evenkeel::context
