#include "page/run_picture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "page/step_picture.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

using testing::ElementsAre;

StepPicture step_with(std::int64_t number, std::vector<std::int64_t> costs) {
  StepPicture step;
  step.step = number;
  step.micro_batches = 1;
  std::vector<std::vector<Cost>> list;
  for (const std::int64_t cost : costs) {
    step.dp_ranks.push_back({.micro_batches = {{1, cost, cost, cost, cost, 0}}});
    list.push_back({cost});
  }
  step.balance = step_balance(list);
  return step;
}

std::vector<std::int64_t> numbers_of(const std::vector<KeptStep>& steps) {
  std::vector<std::int64_t> numbers;
  for (const KeptStep& step : steps) numbers.push_back(step.step);
  return numbers;
}

RC_GTEST_PROP(LengthHistogram, counts_every_sample_and_token_once_in_its_bin, ()) {
  const auto lengths =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 200'000));
  LengthHistogram histogram;
  for (const std::int64_t length : lengths) histogram.add(length);
  const auto& samples = histogram.samples();
  RC_ASSERT(std::ssize(samples) <= LengthHistogram::most_bins);
  for (std::size_t bin = 0; bin < samples.size(); ++bin) {
    const auto in_bin = [&](std::int64_t length) {
      return length / histogram.width() == static_cast<std::int64_t>(bin);
    };
    RC_ASSERT(samples[bin] == std::ranges::count_if(lengths, in_bin));
  }
  RC_ASSERT(std::accumulate(histogram.tokens().begin(), histogram.tokens().end(), std::int64_t{0}) ==
            std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}));
}

TEST(RunPicture, keeps_the_first_step_the_last_step_and_the_longest_waits) {
  RunPicture run;
  for (std::int64_t step = 0; step < 100; ++step) run.add(step_with(step, {100, 200 + (step * 37) % 100}));
  // (step * 37) % 100 is largest, 99, for step 27, then for 54, 81, 8, 35, 62.
  EXPECT_THAT(numbers_of(run.kept_steps()), ElementsAre(0, 8, 27, 35, 54, 62, 81, 99));
  EXPECT_EQ(run.points().size(), 100U);
}

TEST(RunPicture, keeps_each_of_a_few_steps_once) {
  RunPicture run;
  run.add(step_with(0, {1, 2}));
  EXPECT_THAT(numbers_of(run.kept_steps()), ElementsAre(0));
  run.add(step_with(1, {1, 2}));
  run.add(step_with(2, {1, 2}));
  EXPECT_THAT(numbers_of(run.kept_steps()), ElementsAre(0, 1, 2));
}

TEST(RunPicture, keeps_dp_ranks_at_both_ends_if_there_are_too_many_micro_batches) {
  StepPicture step;
  step.micro_batches = RunPicture::max_kept_micro_batches / 4;
  for (std::int64_t rank = 0; rank < 10; ++rank) {
    DpRankPicture& of_rank = step.dp_ranks.emplace_back();
    of_rank.micro_batches.resize(static_cast<std::size_t>(step.micro_batches), {1, 1, 1, rank, 1, 0});
  }
  RunPicture run;
  run.add(step);
  std::vector<std::size_t> kept;
  const KeptStep first = run.kept_steps().front();
  for (std::size_t r = 0; r < first.dp_ranks.size(); ++r) {
    if (!first.dp_ranks[r].micro_batches.empty()) kept.push_back(r);
  }
  EXPECT_THAT(kept, ElementsAre(0, 1, 8, 9));
}

TEST(RunPicture, sums_waiting_for_both_ways_of_meeting) {
  StepPicture step = step_with(0, {0, 0});
  step.micro_batches = 2;
  step.dp_ranks[0].micro_batches = {{1, 1, 1, 30, 1, 0}, {1, 1, 1, 10, 1, 0}};
  step.dp_ranks[1].micro_batches = {{1, 1, 1, 10, 1, 0}, {1, 1, 1, 20, 1, 0}};
  RunPicture run;
  run.add(step);
  EXPECT_DOUBLE_EQ(run.longest_time(), 40);
  EXPECT_DOUBLE_EQ(run.meeting_time(), 50);
  EXPECT_DOUBLE_EQ(run.mean_time(), 35);
  EXPECT_DOUBLE_EQ(run.dp_ranks()[1].waits_at_end, 10);
  EXPECT_DOUBLE_EQ(run.dp_ranks()[1].waits_at_each, 20);
}

TEST(PassTotals, sum_counts_and_seconds_and_have_mean_and_worst_ratios) {
  PassTotals totals;
  EXPECT_EQ(totals.total().balance.dp_max_over_mean, 1);
  for (const std::int64_t number : {1, 3, 2}) {
    PassFigures pass;
    pass.tokens = 10 * number;
    pass.widest = 100 - number;
    pass.balance.dp_max_over_mean = 1 + 0.25 * static_cast<double>(number);
    pass.seconds[4] = static_cast<double>(number);
    pass.slowest[4] = 5;
    totals.add(pass);
  }
  const PassFigures total = totals.total();
  EXPECT_EQ(totals.passes(), 3);
  EXPECT_EQ(total.tokens, 60);
  EXPECT_EQ(total.widest, 99);
  EXPECT_EQ(total.balance.dp_max_over_mean, 1.5);
  EXPECT_EQ(totals.maximum().balance.dp_max_over_mean, 1.75);
  EXPECT_EQ(total.max_over_mean_before, 1);
  EXPECT_EQ(total.seconds[4], 6);
  EXPECT_EQ(total.slowest[4], 15);
}

TEST(LinkPicture, combines_adjacent_ranks_into_at_most_64_lines) {
  EXPECT_EQ(LinkPicture::for_ranks(8).num_lines(), 8);
  EXPECT_EQ(LinkPicture::for_ranks(64).num_lines(), 64);
  EXPECT_EQ(LinkPicture::for_ranks(65).ranks_per_line, 2);
  EXPECT_EQ(LinkPicture::for_ranks(65).num_lines(), 33);
  EXPECT_EQ(LinkPicture::for_ranks(1024).num_lines(), 64);
}

TEST(PictureOfAPlan, matches_the_plan) {
  PlanSettings settings;
  settings.dp = 2;
  settings.align = 4;
  settings.micro_batch.max_tokens = 16;
  const LengthTable table = LengthTable::from_lengths(std::vector<std::int64_t>{7, 3, 9, 5});
  const StepPlan plan = plan_step({table, settings, 0, {}});
  const StepPicture picture = picture_of({table, settings}, plan, {});
  EXPECT_EQ(picture.samples, 4);
  EXPECT_EQ(picture.tokens, 24);
  EXPECT_EQ(picture.filled, 24);
  EXPECT_EQ(picture.rows, 8 + 4 + 12 + 8);
  EXPECT_EQ(picture.padded_rows, 4 * 12);
  EXPECT_EQ(picture.micro_batches, plan.num_micro_batches());
  EXPECT_EQ(picture.dp_ranks[0].tokens_before + picture.dp_ranks[1].tokens_before, 24);
  EXPECT_EQ(picture.dp_ranks[0].tokens_before, 10);
  EXPECT_EQ(picture.costliest_sample, 9);
  EXPECT_DOUBLE_EQ(picture.max_over_mean_before, 14.0 / 12);
}

TEST(PictureOfAPlan, shows_a_grid_unless_it_would_be_refused) {
  const LengthTable table = LengthTable::from_lengths(std::vector<std::int64_t>{7, 3, 9, 5});
  const auto could_use_grid = [&](auto change) {
    PlanSettings settings;
    settings.dp = 2;
    change(settings);
    const StepPlan plan = plan_step({table, settings, 0, {}});
    return picture_of({table, settings}, plan, {}).planning.could_use_grid;
  };
  EXPECT_TRUE(could_use_grid([](PlanSettings&) {}));
  EXPECT_TRUE(could_use_grid([](PlanSettings& s) { s.mini_batches.keep = false; }));
  EXPECT_FALSE(could_use_grid([](PlanSettings& s) { s.mini_batches = {2, false, false}; }));
  EXPECT_FALSE(could_use_grid([](PlanSettings& s) { s.strategy = GridSettings{}; }));
  EXPECT_FALSE(could_use_grid([](PlanSettings& s) { s.strategy = ReferenceSettings{Preset::verl}; }));
  EXPECT_FALSE(could_use_grid([](PlanSettings& s) { s.balance.speeds = {1000, 500}; }));
  EXPECT_FALSE(could_use_grid(
      [](PlanSettings& s) { use<PackedSettings>(s).packing = BinPacking::best_fit_decreasing; }));
}

}  // namespace
}  // namespace evenkeel
