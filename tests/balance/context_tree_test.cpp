#include "balance/context_tree.hpp"

#include <gtest/gtest.h>

#include "balance/context_problems.hpp"

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

TEST(ContextTree, ends_between_the_optimum_and_little_more) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 8, 4);
    const ContextProblem problem = made.problem();
    const Cost least = least_tree_end(problem);
    const Cost end = schedule_context_tree(problem).end;
    ASSERT_LE(context_lower_bound(problem), least) << "seed " << seed;
    ASSERT_LE(least, end) << "seed " << seed;
  }
}

TEST(ContextTree, is_the_same_every_time) {
  const OwnedContextProblem made = random_context_problem(7, 60, 20);
  EXPECT_EQ(schedule_context_tree(made.problem()), schedule_context_tree(made.problem()));
}

}  // namespace
}  // namespace evenkeel
