#include "balance/context_waves.hpp"

#include <gtest/gtest.h>

#include "balance/context_problems.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

TEST(ContextWaves, no_items_are_as_many_empty_waves_as_asked_for) {
  const OwnedContextProblem none = context_problem({}, 4, 100, 1, {});
  EXPECT_EQ(schedule_context_waves(none.problem(), 4, 5).waves, 8);
  EXPECT_TRUE(schedule_context_waves(none.problem(), 4, 5).tasks.empty());
}

TEST(ContextWaves, a_number_of_waves_that_cannot_be_is_an_error) {
  const OwnedContextProblem none = context_problem({}, 4, 100, 1, {});
  EXPECT_THROW((void)schedule_context_waves(none.problem(), 0, 1), InputError);
  EXPECT_THROW((void)schedule_context_waves(none.problem(), 1, -1), InputError);
}

TEST(ContextWaves, keeps_all_rules_on_random_problems) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 60, 20);
    const ContextProblem problem = made.problem();
    const auto multiple_of = static_cast<std::int64_t>(1 + seed % 4);
    const auto min_waves = static_cast<std::int64_t>(seed % 7);
    const ContextSchedule schedule = schedule_context_waves(problem, multiple_of, min_waves);
    ASSERT_EQ(fault_of(problem, schedule, true), "") << "seed " << seed;
    ASSERT_EQ(schedule.waves % multiple_of, 0) << "seed " << seed;
    ASSERT_GE(schedule.waves, min_waves) << "seed " << seed;
  }
}

TEST(ContextWaves, ends_between_the_optimum_and_little_more) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 8, 4);
    const ContextProblem problem = made.problem();
    const Cost least = least_waves_end(problem);
    const Cost end = schedule_context_waves(problem).end;
    ASSERT_LE(context_lower_bound(problem), least) << "seed " << seed;
    ASSERT_LE(least, end) << "seed " << seed;
  }
}

}  // namespace
}  // namespace evenkeel
