#include "balance/context_tree.hpp"

#include <gtest/gtest.h>

#include "balance/context_problems.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

TEST(ContextTree, no_items_are_an_empty_schedule) {
  const OwnedContextProblem none = context_problem({}, 4, 100, 1, {});
  EXPECT_EQ(schedule_context_tree(none.problem()), ContextSchedule{});
}

TEST(ContextTree, keeps_all_rules_on_random_problems) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 60, 20);
    const ContextProblem problem = made.problem();
    ASSERT_EQ(fault_of(problem, schedule_context_tree(problem), false), "") << "seed " << seed;
  }
}

TEST(ContextTree, ends_at_the_optimum_of_most_small_problems) {
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 8, 4);
    const Cost least = least_tree_end(made.problem());
    const Cost end = schedule_context_tree(made.problem()).end;
    ASSERT_LE(least, end) << "seed " << seed;
    ASSERT_LE(end, least + least / 20) << "seed " << seed;
    if (end == least) ++optimal;
  }
  EXPECT_GE(optimal, 290);
}

TEST(ContextTree, of_any_sizes_keeps_all_rules_and_never_ends_later_than_of_powers_of_two) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const OwnedContextProblem powers = random_context_problem(seed, 60, 20);
    const OwnedContextProblem any = with_any_sizes(powers);
    const ContextSchedule schedule = schedule_context_tree(any.problem());
    ASSERT_EQ(fault_of(any.problem(), schedule, false), "") << "seed " << seed;
    ASSERT_LE(schedule.end, schedule_context_tree(powers.problem()).end) << "seed " << seed;
  }
}

TEST(ContextTree, of_any_sizes_ends_at_the_optimum_of_most_small_problems) {
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const OwnedContextProblem made = with_any_sizes(random_context_problem(seed, 7, 7));
    const Cost least = least_tree_end(made.problem());
    const Cost end = schedule_context_tree(made.problem()).end;
    ASSERT_LE(least, end) << "seed " << seed;
    if (end == least) ++optimal;
  }
  EXPECT_GE(optimal, 180);
}

TEST(ContextTree, of_any_sizes_has_room_for_what_no_power_of_two_of_ranks_holds) {
  const OwnedContextProblem made = with_any_sizes(context_problem({680, 90, 80, 70}, 7, 100, 1, {}));
  EXPECT_THROW((void)schedule_context_tree(context_problem({680}, 7, 100, 1, {}).problem()), LimitError);
  EXPECT_EQ(schedule_context_tree(made.problem()).tasks.front(), (ContextTask{0, 7, -1}));
}

TEST(ContextTree, ends_near_the_bound_where_few_samples_have_most_of_the_work) {
  for (const std::int64_t num_samples : {512, 2048}) {
    const OwnedContextProblem made = long_tailed_problem(num_samples);
    const Cost bound = context_lower_bound(made.problem());
    EXPECT_LE(schedule_context_tree(made.problem()).end, bound + bound / 200) << num_samples;
  }
}

TEST(ContextTree, is_the_same_every_time) {
  const OwnedContextProblem made = random_context_problem(7, 60, 20);
  EXPECT_EQ(schedule_context_tree(made.problem()), schedule_context_tree(made.problem()));
}

}  // namespace
}  // namespace evenkeel
