#include "plan/schedule/delayed_window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "evenkeel/plan/batch_schedule.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/strategies/flexible_groups.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using Lengths = std::vector<std::int64_t>;
using Steps = std::vector<Lengths>;

/// Steps with samples of these lengths, numbered consecutively.
class Windows {
 public:
  explicit Windows(const Steps& lengths) {
    for (const Lengths& of_step : lengths) {
      std::vector<std::int64_t>& step = drawn_.emplace_back();
      for (const std::int64_t length : of_step) {
        step.push_back(std::ssize(lengths_));
        lengths_.push_back(length);
      }
    }
  }

  [[nodiscard]] OutlierDelay delay(std::int64_t longer_than, int companions) const {
    OutlierDelay delay;
    delay.settings = {std::ssize(drawn_) - 1, longer_than, companions};
    delay.length = [this](std::int64_t sample) { return lengths_[static_cast<std::size_t>(sample)]; };
    delay.plan.dp = companions;
    delay.plan.micro_batch.max_tokens = 1000;
    delay.plan.balance.cost = CostModel::flops_7b();
    return delay;
  }
  [[nodiscard]] const Steps& drawn() const { return drawn_; }
  [[nodiscard]] Lengths lengths_of(const std::vector<std::int64_t>& samples) const {
    Lengths lengths;
    for (const std::int64_t sample : samples) lengths.push_back(lengths_[static_cast<std::size_t>(sample)]);
    return lengths;
  }

 private:
  Lengths lengths_;
  Steps drawn_;
};

Steps samples_of(const std::vector<DelayedStep>& steps) {
  Steps samples;
  for (const DelayedStep& step : steps) samples.push_back(step.samples);
  return samples;
}

/// Makes all work quadratic, so a short sample costs almost nothing compared to a long one.
OutlierDelay with_quadratic_cost(OutlierDelay delay) {
  delay.plan.balance.cost = CostModel{1, 1};
  delay.plan.balance.overhead = 0;
  return delay;
}

TEST(DelayOutliers, delays_outliers_until_enough_of_similar_size_can_share_a_step) {
  const Windows windows({{900, 10, 10, 10}, {10, 10, 800, 10}, {10, 10, 10, 10}});
  const std::vector<DelayedStep> steps =
      delay_outliers(0, windows.drawn(), with_quadratic_cost(windows.delay(500, 2)));
  EXPECT_THAT(windows.lengths_of(steps[0].samples), ElementsAre(10, 10, 10, 10));
  EXPECT_THAT(windows.lengths_of(steps[1].samples), ElementsAre(900, 10, 800, 10));
  EXPECT_EQ(samples_of(steps)[2], windows.drawn()[2]);
  EXPECT_EQ(steps[1].figures.samples, 1);
  EXPECT_EQ(steps[1].figures.longest, 1);
  EXPECT_EQ(steps[1].figures.token_steps, 900);
  EXPECT_EQ(steps[0].figures.samples, 0);
}

TEST(DelayOutliers, waits_longer_for_outliers_of_similar_size) {
  const Windows windows({{900, 10, 10, 10}, {300, 10, 10, 10}, {10, 950, 10, 10}, {10, 10, 10, 290}});
  const std::vector<DelayedStep> steps =
      delay_outliers(0, windows.drawn(), with_quadratic_cost(windows.delay(200, 2)));
  EXPECT_THAT(windows.lengths_of(steps[2].samples), ElementsAre(900, 950, 10, 10));
  EXPECT_THAT(windows.lengths_of(steps[3].samples), ElementsAre(300, 10, 10, 290));
}

TEST(DelayOutliers, puts_remaining_outliers_together_at_the_end) {
  const Windows windows({{900, 10, 10, 10}, {10, 10, 800, 10}, {10, 10, 10, 10}});
  const std::vector<DelayedStep> steps =
      delay_outliers(0, windows.drawn(), with_quadratic_cost(windows.delay(500, 3)));
  EXPECT_THAT(windows.lengths_of(steps[2].samples), ElementsAre(900, 800, 10, 10));
}

TEST(DelayOutliers, keeps_outliers_in_place_if_a_delay_does_not_help) {
  // By tokens, the ranks are equally balanced without it.
  const Windows windows({{600, 300, 300}, {300, 600, 300}});
  OutlierDelay delay = windows.delay(500, 2);
  delay.plan.balance.cost = CostModel::tokens();
  EXPECT_EQ(samples_of(delay_outliers(0, windows.drawn(), delay)), windows.drawn());
}

TEST(DelayOutliers, changes_nothing_in_a_window_with_a_sample_above_every_cap) {
  const Windows windows({{900, 10, 10, 1001}, {10, 10, 800, 10}});
  EXPECT_EQ(samples_of(delay_outliers(0, windows.drawn(), windows.delay(500, 2))), windows.drawn());
}

TEST(DelayOutliers, keeps_outliers_in_place_if_a_step_has_no_other_sample_to_swap) {
  const Windows windows({{900, 10}, {800}});
  EXPECT_EQ(samples_of(delay_outliers(0, windows.drawn(), windows.delay(500, 2))), windows.drawn());
}

/// Returns lengths of which one in twelve is long.
Steps random_steps() {
  const auto steps = *rc::gen::inRange<std::size_t>(1, 7);
  Steps lengths(steps);
  for (Lengths& of_step : lengths) {
    of_step = *rc::gen::container<Lengths>(
        *rc::gen::inRange<std::size_t>(1, 25),
        rc::gen::weightedOneOf<std::int64_t>(
            {{11, rc::gen::inRange<std::int64_t>(0, 120)}, {1, rc::gen::inRange<std::int64_t>(300, 1001)}}));
  }
  return lengths;
}

RC_GTEST_PROP(DelayOutliers, move_within_their_window_and_every_step_keeps_its_size, ()) {
  const Windows windows(random_steps());
  if (windows.drawn().size() < 2) RC_DISCARD();
  const std::vector<DelayedStep> steps =
      delay_outliers(3, windows.drawn(), windows.delay(250, *rc::gen::inRange(2, 6)));
  std::map<std::int64_t, std::size_t> came;
  for (std::size_t t = 0; t < steps.size(); ++t) {
    RC_ASSERT(steps[t].samples.size() == windows.drawn()[t].size());
    for (const std::int64_t sample : steps[t].samples) RC_ASSERT(came.emplace(sample, t).second);
  }
  for (std::size_t t = 0; t < steps.size(); ++t) {
    for (const std::int64_t sample : windows.drawn()[t]) {
      const bool is_outlier = windows.lengths_of({sample})[0] > 250;
      RC_ASSERT(came.contains(sample));
      RC_ASSERT((is_outlier && came[sample] >= t) || (!is_outlier && came[sample] <= t));
    }
  }
}

// Both windows are planned step by step, as plan_step does.
RC_GTEST_PROP(DelayOutliers, never_make_a_window_end_later, ()) {
  const Windows windows(random_steps());
  if (windows.drawn().size() < 2) RC_DISCARD();
  OutlierDelay delay = windows.delay(250, *rc::gen::inRange(2, 6));
  constexpr Cost overhead = 5'000'000;
  delay.plan.balance.overhead = overhead;
  if (*rc::gen::arbitrary<bool>()) delay.plan.strategy = GridSettings{};
  const std::vector<DelayedStep> steps = delay_outliers(0, windows.drawn(), delay);
  DelayFigures sum;
  for (const DelayedStep& step : steps) sum.add(step.figures);
  for (const bool meets : {false, true}) {
    const auto end = [&](const Steps& of) {
      Cost total = 0;
      for (std::size_t t = 0; t < of.size(); ++t) {
        const StepPlan plan = plan_step(
            {LengthTable::from_lengths(windows.lengths_of(of[t])), delay.plan, static_cast<std::int64_t>(t)});
        total += end_time_of(plan, meets) + plan.num_micro_batches() * overhead;
      }
      return static_cast<double>(total);
    };
    RC_ASSERT(end(samples_of(steps)) <= end(windows.drawn()));
    const auto of = [&](const DelayFigures::Ends& ends) {
      return meets ? ends.every_micro_batch : ends.once;
    };
    RC_ASSERT(of(sum.in_order) == end(windows.drawn()));
    RC_ASSERT(of(sum.planned) == end(samples_of(steps)));
  }
}

/// Epochs of 240 samples in steps of 24, one in thirty long.
class DelayedSchedule : public testing::Test {
 protected:
  DelayedSchedule() {
    std::mt19937_64 random(7);
    for (int i = 0; i < 240; ++i)
      lengths_.push_back(i % 30 == 7 ? 600 + static_cast<std::int64_t>(random() % 400)
                                     : 10 + static_cast<std::int64_t>(random() % 90));
  }
  [[nodiscard]] BatchSchedule schedule(std::int64_t steps) const {
    OutlierDelay delay;
    delay.settings = {steps, 500, 4};
    delay.length = [this](std::int64_t sample) { return lengths_[static_cast<std::size_t>(sample)]; };
    delay.plan.dp = 4;
    delay.plan.micro_batch.max_tokens = 1000;
    delay.plan.balance.cost = CostModel::flops_7b();
    return BatchSchedule({{.samples = 240}}, {24, 2, true, 5, false}, delay);
  }

  Lengths lengths_;
};

TEST_F(DelayedSchedule, has_every_sample_once_per_epoch) {
  BatchSchedule delayed = schedule(3);
  ASSERT_EQ(delayed.num_steps(), 20);
  for (const std::int64_t epoch : {0, 1}) {
    std::vector<std::int64_t> all;
    for (std::int64_t step = epoch * 10; step < epoch * 10 + 10; ++step)
      std::ranges::copy(delayed.share_of(step, 0, 1), std::back_inserter(all));
    std::ranges::sort(all);
    ASSERT_EQ(all.size(), 240U);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
  }
}

TEST_F(DelayedSchedule, gives_the_same_steps_from_any_start_and_for_any_ranks) {
  BatchSchedule in_order = schedule(3);
  Steps steps;
  for (std::int64_t step = 0; step < in_order.num_steps(); ++step)
    steps.push_back(in_order.share_of(step, 0, 1));
  BatchSchedule backwards = schedule(3);
  for (std::int64_t step = backwards.num_steps(); step-- > 0;) {
    Lengths joined;
    for (int rank = 0; rank < 5; ++rank)
      std::ranges::copy(backwards.share_of(step, rank, 5), std::back_inserter(joined));
    EXPECT_EQ(joined, steps[static_cast<std::size_t>(step)]) << step;
  }
}

TEST_F(DelayedSchedule, reports_the_delay_and_gain_of_any_steps) {
  BatchSchedule delayed = schedule(4);
  const auto of = [&](std::int64_t begin, std::int64_t end) {
    DelayFigures sum;
    for (std::int64_t step = begin; step < end; ++step) sum.add(delayed.delay_of(step));
    return sum;
  };
  const DelayFigures later = of(10, 20);
  const DelayFigures all = of(0, 20);
  EXPECT_EQ(all.steps, 20);
  EXPECT_EQ(all.tokens, 2 * std::accumulate(lengths_.begin(), lengths_.end(), std::int64_t{0}));
  EXPECT_GT(all.samples, later.samples);
  EXPECT_GT(later.samples, 0);
  EXPECT_LE(all.longest, 4);
  EXPECT_GT(all.steps_per_token(), 0);
  EXPECT_LT(all.planned.every_micro_batch, all.in_order.every_micro_batch);
  EXPECT_LE(all.planned.once, all.in_order.once);
}

TEST_F(DelayedSchedule, equals_the_plain_schedule_without_a_delay) {
  BatchSchedule plain({{.samples = 240}}, {24, 2, true, 5, false});
  BatchSchedule none = schedule(0);
  for (std::int64_t step = 0; step < plain.num_steps(); ++step) {
    EXPECT_EQ(none.share_of(step, 1, 3), plain.share_of(step, 1, 3));
    EXPECT_EQ(none.delay_of(step), DelayFigures{});
  }
}

}  // namespace
}  // namespace evenkeel
