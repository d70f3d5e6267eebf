#include "balance/context/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "balance/context/context_problems.hpp"
#include "balance/context/levels.hpp"
#include "balance/context/long_items.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::context {
namespace {

using testing::HasSubstr;

TEST(Problem, every_sequence_of_an_item_is_aligned_on_its_own) {
  OwnedContextProblem made = context_problem({5, 3, 9}, 4, 100, 1, {});
  made.offsets = {0, 2, 3};
  made.items.pop_back();
  const Problem problem = made.problem();
  EXPECT_EQ(problem.aligned_size(0, 1), 8);
  EXPECT_EQ(problem.aligned_size(0, 2), 8 + 4);
  EXPECT_EQ(problem.aligned_size(1, 4), 16);
}

TEST(ContextFits, an_item_above_the_largest_group_is_an_error_that_names_it) {
  const OwnedContextProblem made = context_problem({5, 401}, 4, 100, 1, {});
  try {
    require_schedulable(made.problem());
    FAIL() << "item 1 fits nowhere";
  } catch (const LimitError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("item 1 does not fit in any group: on 4 ranks it has 408 aligned tokens, but a micro-batch "
                  "holds at most 400"));
  }
}

TEST(ContextFits, sizes_are_powers_of_two_up_to_the_largest) {
  OwnedContextProblem made = context_problem({300}, 4, 100, 1, {});
  EXPECT_NO_THROW(require_schedulable(made.problem()));
  made.rest.max_size = 3;
  EXPECT_THROW(require_schedulable(made.problem()), LimitError);
}

TEST(ContextFits, an_item_whose_count_exceeds_the_limit_is_an_error) {
  OwnedContextProblem made = context_problem({5, 6}, 2, 100, 1, {});
  made.counts = {1, 4};
  made.rest.limits.max_items = 3;
  EXPECT_THROW(require_schedulable(made.problem()), LimitError);
}

TEST(ContextFits, lists_of_inconsistent_lengths_are_an_error) {
  const OwnedContextProblem good = context_problem({5, 6}, 2, 100, 1, {});
  OwnedContextProblem bad = good;
  bad.counts = {1};
  EXPECT_THROW(require_schedulable(bad.problem()), InputError);
  bad = good;
  bad.lengths.pop_back();
  EXPECT_THROW(require_schedulable(bad.problem()), InputError);
  bad = good;
  bad.alignments.pop_back();
  EXPECT_THROW(require_schedulable(bad.problem()), InputError);
  bad = good;
  bad.items[1].work = -1;
  EXPECT_THROW(require_schedulable(bad.problem()), InputError);
  bad = good;
  bad.items[1].attention = bad.items[1].work + 1;
  EXPECT_THROW(require_schedulable(bad.problem()), InputError);
  bad = good;
  bad.items[1].work = std::int64_t{1} << 62;
  EXPECT_THROW(require_schedulable(bad.problem()), InputError);
}

TEST(ContextLowerBound, no_items_end_at_once) {
  EXPECT_EQ(lower_bound(context_problem({}, 4, 100, 1, {}).problem()), 0);
}

// One item of 100 tokens on 4 ranks: 10100 of work, over 4 ranks, and 7 of overhead.
TEST(ContextLowerBound, one_item_takes_as_long_as_on_its_best_group) {
  EXPECT_EQ(lower_bound(context_problem({100}, 4, 100, 1, {.overhead = 7}).problem()), 2525 + 7);
}

// Two items of 100 tokens: 10000 of work on 1 rank each, 12000 on 2 and 16000 on 4. Within less than 6000
// both would have to take all 4 ranks, 4000 each. Work alone would be 20000 on 4 ranks.
TEST(ContextLowerBound, short_ends_need_large_groups_that_communicate) {
  const OwnedContextProblem made =
      context_problem({100, 100}, 4, 100, 0, {.inside_node = 20, .ranks_per_node = 4, .overlap = 0});
  EXPECT_EQ(lower_bound(made.problem()), 6000);
  EXPECT_EQ(least_tree_end(made.problem()), 6000);
}

// An item of 300 tokens needs 4 ranks of 100: 90000 of work and 180000 of communication, of which its own
// attention hides 90000. The other items have enough attention to hide the rest, but do not fit beside it.
// Bounds are exact to 1 in 65536.
TEST(ContextLowerBound, co_scheduled_items_hide_only_communication_that_fits) {
  std::vector<std::int64_t> lengths(100, 90);
  lengths.push_back(300);
  const OwnedContextProblem made =
      context_problem(lengths, 4, 100, 0, {.inside_node = 200, .ranks_per_node = 4});
  const Cost work = 100 * 90 * 90 + 300 * 300;
  const Cost exposed = 200 * 3 * 300 - 300 * 300;
  EXPECT_NEAR(static_cast<double>(lower_bound(made.problem())), (work + exposed) / 4, 4);
}

// On 4 ranks of 100 tokens, 150 tokens cost 36000 of communication, of which their own attention hides 22500.
// An item of 300 could hide more, but does not fit beside it; an item of 245 does.
TEST(LongItems, pay_all_communication_if_no_item_that_fits_with_them_hides_it) {
  const CommunicationCost cost{.inside_node = 80, .ranks_per_node = 4};
  const OwnedContextProblem apart = context_problem({150, 300}, 4, 100, 0, cost);
  const Problem apart_problem = apart.problem();
  const Levels apart_levels(apart_problem);
  EXPECT_EQ(LongItems(apart_levels, 0).places(0)[2].alone, 36000 - 22500);
  const OwnedContextProblem together = context_problem({150, 300, 245}, 4, 100, 0, cost);
  const Problem together_problem = together.problem();
  const Levels together_levels(together_problem);
  EXPECT_EQ(LongItems(together_levels, 0).places(0)[2].alone, 0);
}

// Five equal items, 10000 of work on 1 of 4 ranks, 12000 on 2, 16000 on all. A rank has no time for two
// within less than 20000, so one runs on all ranks, 4000. The ranks together would have had time for 5 within
// 12500.
TEST(ContextLowerBound, the_largest_items_need_blocks_of_ranks) {
  const OwnedContextProblem made = context_problem({100, 100, 100, 100, 100}, 4, 100, 0,
                                                   {.inside_node = 20, .ranks_per_node = 4, .overlap = 0});
  EXPECT_EQ(lower_bound(made.problem()), 14000);
  EXPECT_EQ(least_tree_end(made.problem()), 14000);
}

// One of three ranks has half the speed: together, they are 2.5 times as fast as the fastest one.
TEST(ContextLowerBound, a_slow_rank_does_less) {
  OwnedContextProblem made = context_problem(std::vector<std::int64_t>(100, 10), 3, 100, 0, {});
  made.speeds = {10, 5, 10};
  EXPECT_EQ(lower_bound(made.problem()), 100 * 100 * 2 / 5);
}

// 10000 of work: 5000 on four ranks at half their speed, or on the two fast ones.
TEST(ContextLowerBound, one_item_takes_as_long_as_on_its_best_block) {
  OwnedContextProblem made = context_problem({100}, 4, 100, 0, {});
  made.speeds = {10, 5, 10, 10};
  EXPECT_EQ(lower_bound(made.problem()), 5000);
  made.rest.max_size = 1;
  EXPECT_EQ(lower_bound(made.problem()), 10000);
}

// 150 tokens need two ranks of 100, of which one is slow: 22500 of work take 22500 on each, in which the fast
// one of both could do another 11250. The bound counts 1.5 times the work of each of four such items, which
// two blocks have time for.
TEST(ContextLowerBound, fast_ranks_wait_for_slow_ones_of_their_blocks) {
  OwnedContextProblem made = context_problem({150, 150, 150, 150}, 4, 100, 0, {});
  made.rest.max_size = 2;
  made.speeds = {10, 5, 5, 10};
  EXPECT_EQ(lower_bound(made.problem()), 2 * 22500);
  EXPECT_EQ(least_tree_end(made.problem()), 2 * 22500);
}

TEST(ContextLowerBound, with_speeds_is_no_later_than_the_optimum) {
  for (std::uint64_t seed = 1000; seed < 1400; ++seed) {
    const OwnedContextProblem made = with_random_speeds(random_context_problem(seed, 8, 4), seed);
    const Cost bound = lower_bound(made.problem());
    ASSERT_LE(bound, least_tree_end(made.problem())) << "seed " << seed;
    ASSERT_LE(bound, least_waves_end(made.problem())) << "seed " << seed;
  }
}

TEST(ContextFits, speeds_are_one_per_rank_and_do_not_overflow_times) {
  OwnedContextProblem made = context_problem({5, 6}, 2, 100, 1, {});
  made.speeds = {1, 2};
  EXPECT_NO_THROW(require_schedulable(made.problem()));
  made.speeds = {1, 2, 3};
  EXPECT_THROW(require_schedulable(made.problem()), InputError);
  made.speeds = {1, 0};
  EXPECT_THROW(require_schedulable(made.problem()), InputError);
  made.speeds = {1, (std::int64_t{1} << 31) + 1};
  EXPECT_THROW(require_schedulable(made.problem()), InputError);
  made.speeds = {1, std::int64_t{1} << 31};
  EXPECT_NO_THROW(require_schedulable(made.problem()));
  made.items[0].work = std::int64_t{1} << 32;
  EXPECT_THROW(require_schedulable(made.problem()), InputError);
}

TEST(ContextLowerBound, is_no_later_than_the_optimum) {
  for (std::uint64_t seed = 1000; seed < 1300; ++seed) {
    const OwnedContextProblem made = random_context_problem(seed, 8, 4);
    const Cost bound = lower_bound(made.problem());
    ASSERT_LE(bound, least_tree_end(made.problem())) << "seed " << seed;
    ASSERT_LE(bound, least_waves_end(made.problem())) << "seed " << seed;
  }
}

}  // namespace
}  // namespace evenkeel::context
