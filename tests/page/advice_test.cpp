#include "page/advice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "page/step_picture.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

/// Returns a step with these micro-batch costs, one list per DP rank: a row costs 1, and all rows contain a
/// token.
StepPicture step_of(const std::vector<std::vector<std::int64_t>>& costs) {
  StepPicture step;
  step.planning.cap = 1000;
  step.samples = 100 * std::ssize(costs);
  step.loss_tokens = step.samples;
  std::vector<std::vector<Cost>> list;
  for (const auto& of_rank : costs) {
    DpRankPicture& rank = step.dp_ranks.emplace_back();
    list.emplace_back(of_rank.begin(), of_rank.end());
    for (const std::int64_t cost : of_rank) {
      rank.micro_batches.push_back({10, cost, cost, cost, cost, 0});
      step.tokens += cost;
    }
  }
  step.filled = step.rows = step.tokens;
  step.micro_batches = step.lower_bound = std::ssize(costs.front());
  step.balance = step_balance(list);
  return step;
}

std::vector<Advice> advice_on_step(const StepPicture& step, const RunCircumstances& circumstances = {}) {
  RunPicture run;
  run.add(step);
  return advice_on(run, circumstances);
}

TEST(Advice, says_that_steps_train_nothing) {
  RunPicture run;
  StepPicture step = step_of({{100}, {100}});
  run.add(step);
  EXPECT_THAT(advice_on(run, {}), testing::IsEmpty());
  step.loss_tokens = 0;
  step.without_loss = step.samples;
  run.add(step);
  const std::vector<Advice> all = advice_on(run, {});
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].what,
            "In 1 of 2 steps no token carries loss: all loss weights are 0, and nothing is trained.");
  EXPECT_DOUBLE_EQ(all[0].share, 0.5);
}

TEST(Advice, is_empty_without_a_possible_gain) {
  EXPECT_THAT(advice_on({}), IsEmpty());
  EXPECT_THAT(advice_on_step(step_of({{100, 100}, {100, 100}})), IsEmpty());
  EXPECT_THAT(advice_on_step(step_of({{100, 100}, {100, 101}})), IsEmpty());
}

TEST(Advice, names_the_dp_rank_that_waits_most_and_the_one_that_it_waits_for) {
  const std::vector<Advice> advice = advice_on_step(step_of({{100}, {200}, {50}}));
  ASSERT_THAT(advice, SizeIs(1));
  EXPECT_THAT(advice[0].what, HasSubstr("dp 2 waits 75.0 % of the planned work's time"));
  EXPECT_THAT(advice[0].what, HasSubstr("dp 1 has the most work, 71.4 % above the mean"));
  EXPECT_NEAR(advice[0].share, 1 - 350.0 / 600, 1e-9);
}

TEST(Advice, distinguishes_one_giant_sample_from_an_uneven_assignment) {
  StepPicture step = step_of({{100}, {200}, {50}});
  EXPECT_THAT(advice_on_step(step)[0].why, HasSubstr("do not divide more evenly"));
  step.costliest_sample = 200;
  EXPECT_THAT(advice_on_step(step)[0].why,
              testing::StartsWith("The costliest sample alone is more than a DP rank's mean work"));
  step.planning.in_source_order = true;
  EXPECT_THAT(advice_on_step(step)[0].action, HasSubstr("balance.algorithm: auto"));
}

TEST(Advice, uses_time_if_dp_ranks_have_speeds) {
  StepPicture step = step_of({{100}, {200}});
  step.dp_ranks[0].speed = 500;
  EXPECT_THAT(advice_on_step(step), IsEmpty());
  step.dp_ranks[0].speed = 250;
  EXPECT_THAT(advice_on_step(step)[0].what, HasSubstr("dp 1 waits 50.0 %"));
}

TEST(Advice, distinguishes_meeting_at_every_micro_batch_from_meeting_once) {
  StepPicture step = step_of({{100, 50}, {50, 100}});
  step.planning.could_use_grid = true;
  const std::vector<Advice> advice = advice_on_step(step);
  ASSERT_THAT(advice, SizeIs(1));
  EXPECT_THAT(advice[0].what, HasSubstr("a DP rank waits 25.0 %"));
  EXPECT_THAT(advice[0].what, HasSubstr("on average, and 0.0 % if they meet at the end"));
  EXPECT_THAT(advice[0].action, HasSubstr("balance.strategy: grid"));
}

TEST(Advice, blames_the_cap_only_if_a_sample_exceeds_a_mean_micro_batch) {
  StepPicture step = step_of({{100, 50}, {50, 100}});
  step.costliest_sample = 70;
  EXPECT_THAT(advice_on_step(step)[0].action, testing::Not(HasSubstr("max_tokens")));
  step.costliest_sample = 100;
  EXPECT_THAT(advice_on_step(step)[0].action, HasSubstr("micro_batch.max_tokens"));
}

TEST(Advice, counts_micro_batches_above_the_bound_and_names_the_setting_that_requires_them) {
  StepPicture step = step_of({{100, 100}, {100, 100}});
  step.lower_bound = 1;
  const std::vector<Advice> advice = advice_on_step(step);
  ASSERT_THAT(advice, SizeIs(1));
  EXPECT_THAT(advice[0].what,
              HasSubstr("has 2 micro-batches; judging by the tokens and the cap, 1 could be enough."));
  EXPECT_THAT(advice[0].action, HasSubstr("micro_batch.max_tokens"));
  step.planning.may_require_more = true;
  EXPECT_THAT(advice_on_step(step)[0].why, HasSubstr("min_count"));
}

TEST(Advice, mentions_alignment_only_if_it_is_large) {
  StepPicture step = step_of({{100}, {100}});
  step.rows = 208;
  EXPECT_THAT(advice_on_step(step), IsEmpty());
  step.rows = 250;
  step.planning.alignment = 32;
  EXPECT_THAT(advice_on_step(step)[0].why, HasSubstr("aligned to 32 tokens"));
}

TEST(Advice, mentions_caps_broken_by_a_preset) {
  StepPicture step = step_of({{1200}, {1200}});
  step.above_cap = 2;
  step.widest = 1200;
  step.planning.preset = "verl";
  const std::vector<Advice> advice = advice_on_step(step);
  ASSERT_THAT(advice, SizeIs(1));
  EXPECT_THAT(advice[0].what, HasSubstr("2 micro-batches are above the cap, with up to 1,200 rows; 1,000"));
}

TEST(Advice, suggests_prefetching_only_if_it_is_off_and_the_trainer_waited_long) {
  StepPicture step = step_of({{100}, {100}});
  step.seconds = {3, 0, 0, 0, 1, 0};
  step.waited = 4;
  EXPECT_THAT(advice_on_step(step, {0, 10}), SizeIs(1));
  EXPECT_THAT(advice_on_step(step, {0, 10})[0].what,
              HasSubstr("4.0 s of 10.0 s for steps; the longest phase is read"));
  EXPECT_THAT(advice_on_step(step, {1, 10}), IsEmpty());
  EXPECT_THAT(advice_on_step(step, {0, 1000}), IsEmpty());
  EXPECT_THAT(advice_on_step(step), IsEmpty());
}

TEST(Advice, names_the_rank_that_reads_longest) {
  StepPicture step = step_of({{100}, {100}});
  step.ranks.resize(3);
  step.ranks[1].seconds[0] = 6;
  step.seconds = {2, 4, 0, 0, 1, 0};
  step.slowest = {6, 6, 0, 0, 1, 0};
  EXPECT_THAT(advice_on_step(step)[0].what, HasSubstr("6.0 s on rank 1 and 2.0 s on average"));
}

TEST(Advice, starts_with_the_largest_effect) {
  StepPicture step = step_of({{100, 50}, {50, 200}});
  step.rows = 4000;
  const std::vector<Advice> advice = advice_on_step(step);
  ASSERT_THAT(advice, SizeIs(3));
  EXPECT_GE(advice[0].share, advice[1].share);
  EXPECT_GE(advice[1].share, advice[2].share);
  EXPECT_THAT(advice[0].what, HasSubstr("are padding, not tokens"));
}

}  // namespace
}  // namespace evenkeel
