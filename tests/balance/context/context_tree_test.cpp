#include "balance/context/tree/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "balance/context/context_problems.hpp"
#include "balance/context/waves/waves.hpp"
#include "support/sanitized.hpp"

namespace evenkeel::context {
namespace {

TEST(ContextTree, no_items_are_an_empty_schedule) {
  const OwnedContextProblem none = context_problem({}, 4, 100, 1, {});
  EXPECT_EQ(schedule_tree(none.problem()), Schedule{});
}

TEST(ContextTree, keeps_all_rules_on_random_problems) {
  for (std::uint64_t seed = 0; seed < 400; seed += testing_support::one_in) {
    const OwnedContextProblem made = random_context_problem(seed, 60, 20);
    const Problem problem = made.problem();
    ASSERT_EQ(fault_of(problem, schedule_tree(problem), false), "") << "seed " << seed;
  }
}

TEST(ContextTree, ends_at_the_optimum_of_most_small_problems) {
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 8, 4);
    const Cost least = least_tree_end(made.problem());
    const Cost end = schedule_tree(made.problem()).end;
    ASSERT_LE(least, end) << "seed " << seed;
    ASSERT_LE(end, least + least / 20) << "seed " << seed;
    if (end == least) ++optimal;
  }
  EXPECT_GE(optimal, 290);
}

TEST(ContextTree, ends_near_the_bound_if_few_samples_have_most_of_the_work) {
  for (const std::int64_t num_samples : {512, 2048}) {
    const OwnedContextProblem made = long_tailed_problem(num_samples);
    const Cost bound = lower_bound(made.problem());
    EXPECT_LE(schedule_tree(made.problem()).end, bound + bound / 200) << num_samples;
  }
}

TEST(ContextTree, never_ends_more_than_a_512th_after_waves) {
  for (std::uint64_t seed = 0; seed < 200; seed += testing_support::one_in) {
    OwnedContextProblem made = random_context_problem(seed, 60, 20);
    if (seed % 2 == 1) made = with_random_speeds(made, seed);
    const Cost waves = schedule_waves(made.problem()).end;
    ASSERT_LE(schedule_tree(made.problem()).end, waves + waves / 512) << "seed " << seed;
  }
}

// Lengths similar to those of encyclopedia articles: eight groups of eight ranks are balanced.
TEST(ContextTree, finds_groups_of_one_size_if_these_are_most_even) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 256; ++i) {
    const std::int64_t uniform = i * 97 % 256;
    lengths.push_back(60 + uniform * uniform * uniform / 4000 + (uniform > 245 ? 3000 * (uniform - 245) : 0));
  }
  const OwnedContextProblem made = context_problem(lengths, 64, 8192, 24576, {.overhead = 256 * 24576});
  const Cost bound = lower_bound(made.problem());
  EXPECT_LE(schedule_tree(made.problem()).end, bound + bound / 500);
}

TEST(ContextTree, with_speeds_keeps_all_rules_on_random_problems) {
  for (std::uint64_t seed = 0; seed < 400; seed += testing_support::one_in) {
    const OwnedContextProblem made = with_random_speeds(random_context_problem(seed, 60, 20), seed);
    ASSERT_EQ(fault_of(made.problem(), schedule_tree(made.problem()), false), "") << "seed " << seed;
  }
}

TEST(ContextTree, with_speeds_ends_at_the_optimum_of_most_small_problems) {
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const OwnedContextProblem made = with_random_speeds(random_context_problem(seed, 8, 4), seed);
    const Cost least = least_tree_end(made.problem());
    const Cost end = schedule_tree(made.problem()).end;
    ASSERT_LE(least, end) << "seed " << seed;
    ASSERT_LE(end, least + least / 20) << "seed " << seed;
    if (end == least) ++optimal;
  }
  EXPECT_GE(optimal, 285);
}

TEST(ContextTree, equal_speeds_change_nothing) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const OwnedContextProblem plain = random_context_problem(seed, 60, 20);
    OwnedContextProblem equal = plain;
    equal.speeds.assign(static_cast<std::size_t>(equal.rest.ranks), 1 + static_cast<std::int64_t>(seed));
    ASSERT_EQ(schedule_tree(equal.problem()), schedule_tree(plain.problem())) << seed;
    ASSERT_EQ(lower_bound(equal.problem()), lower_bound(plain.problem())) << seed;
  }
}

/// Returns when the last rank ends if the schedule was made for ranks with other speeds.
Cost end_on(const Problem& problem, const Schedule& schedule) {
  std::vector<Cost> ends(static_cast<std::size_t>(problem.ranks));
  for (std::int64_t t = 0; t < schedule.items.size(); ++t) {
    const Task& task = schedule.tasks[static_cast<std::size_t>(t)];
    ContextWork work;
    for (const Item item : schedule.items[t]) work += problem.items[static_cast<std::size_t>(item)];
    const Cost time = time_of(problem, work, task.first, task.size);
    for (std::int64_t r = task.first; r < task.first + task.size; ++r)
      ends[static_cast<std::size_t>(r)] += time;
  }
  return std::ranges::max(ends);
}

// Eight of 64 ranks are half as fast, one on each node, so all long samples run on slow groups.
TEST(ContextTree, ends_near_the_bound_if_every_group_has_slow_ranks) {
  for (const std::int64_t num_samples : {512, 2048}) {
    OwnedContextProblem made = long_tailed_problem(num_samples);
    for (std::int64_t r = 0; r < 64; ++r) made.speeds.push_back(r % 8 == 0 ? 500 : 1000);
    const Cost bound = lower_bound(made.problem());
    EXPECT_LE(schedule_tree(made.problem()).end, bound + bound / 200) << num_samples;
  }
}

// The slow ranks are all on one node. Most of the work needs half of the ranks together, and one of the
// halves contains the slow ranks, so the bound cannot be reached.
TEST(ContextTree, knowing_a_slow_node_ends_the_step_much_earlier) {
  OwnedContextProblem made = long_tailed_problem(512);
  const Schedule unknowing = schedule_tree(made.problem());
  for (std::int64_t r = 0; r < 64; ++r) made.speeds.push_back(r < 8 ? 500 : 1000);
  const Schedule schedule = schedule_tree(made.problem());
  EXPECT_EQ(end_on(made.problem(), schedule), schedule.end);
  EXPECT_LE(schedule.end * 3, end_on(made.problem(), unknowing) * 2);
}

TEST(ContextTree, is_deterministic) {
  const OwnedContextProblem made = random_context_problem(7, 60, 20);
  EXPECT_EQ(schedule_tree(made.problem()), schedule_tree(made.problem()));
}

}  // namespace
}  // namespace evenkeel::context
