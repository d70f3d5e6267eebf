#include "plan/settings/field_costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::made_up_table;
using testing_support::table_of;

LengthTable with_rows(LengthTable table, std::vector<std::int64_t> rows) {
  table.set_row_counts({{"pixels", std::move(rows)}});
  return table;
}

PlanSettings with_encoder(int dp, CostModel cost = {10, 0, 0}) {
  PlanSettings settings;
  settings.dp = dp;
  settings.micro_batch.max_tokens = 4096;
  settings.balance.encoder = EncoderCost{"pixels", cost};
  return settings;
}

EncoderWork work_of(const StepProblem& problem) {
  return encoder_work_of(problem.table, problem.settings, assign_step(problem));
}

TEST(EncoderCosts, are_computed_from_rows_of_samples) {
  const LengthTable table = with_rows(table_of({5, 3, 8}), {4, 0, 2});
  EXPECT_THAT(encoder_costs_of(table, {"pixels", {10, 1, 0}}), ElementsAre(56, 0, 24));
}

TEST(EncoderCosts, samples_without_such_a_field_are_refused_by_its_name) {
  const LengthTable table = with_rows(table_of({5, 3}), {4, 0});
  try {
    (void)assign_step({table_of({5, 3}), with_encoder(2)});
    FAIL() << "planned";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("field 'pixels'"));
  }
  EXPECT_THROW((void)encoder_costs_of(table, {"frames", {1, 0, 0}}), InputError);
}

TEST(EncoderCosts, a_step_without_samples_needs_no_field) {
  EXPECT_EQ(work_of({table_of({}), with_encoder(2)}), (EncoderWork{{0, 0}, {0, 0}}));
}

TEST(EncoderCosts, balance_images_among_samples_that_are_equal_for_the_model) {
  const LengthTable table = with_rows(table_of({8, 8, 8, 8}), {6, 6, 0, 0});
  const EncoderWork work = work_of({table, with_encoder(2, {1, 0, 0})});
  EXPECT_THAT(work.in_source_order, ElementsAre(12, 0));
  EXPECT_THAT(work.assigned, ElementsAre(6, 6));
}

TEST(EncoderCosts, sum_over_samples_that_share_a_prompt) {
  std::vector<LengthEntry> entries;
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto uid = static_cast<std::uint64_t>(i / 2);
    entries.push_back({{SampleId{i}, uid, 6, 2}, WorldRank{0}, static_cast<std::int32_t>(i), -1, uid + 1});
  }
  PlanSettings settings = with_encoder(2, {1, 0, 0});
  settings.sharing = PrefixSharing::prompts;
  const LengthTable table = with_rows(LengthTable(entries), {1, 2, 3, 4});
  EncoderWork work = work_of({table, settings});
  std::ranges::sort(work.assigned);
  EXPECT_THAT(work.assigned, ElementsAre(3, 7));
}

TEST(EncoderCosts, the_models_work_stays_balanced_if_images_do_not_correlate_with_lengths) {
  std::mt19937_64 random(3);
  std::geometric_distribution<std::int64_t> images(0.3);
  const LengthTable lengths = made_up_table(512, 5);
  std::vector<std::int64_t> rows(512);
  for (std::int64_t& count : rows) count = 64 * images(random);
  for (const std::int64_t mini_batches : {1, 2}) {
    PlanSettings settings = with_encoder(8, {1, 0, 0});
    settings.mini_batches.count = mini_batches;
    const StepProblem problem{with_rows(lengths, rows), settings};
    EXPECT_LT(step_balance(plan_step(problem)).dp_max_over_mean, 1.002);
    const EncoderWork work = work_of(problem);
    EXPECT_LT(max_over_mean(work.assigned), 1.02);
    EXPECT_GT(max_over_mean(work.in_source_order), 1.1);
  }
}

RC_GTEST_PROP(EncoderCosts, all_work_is_assigned_and_every_rank_finds_the_same, ()) {
  const auto n = *rc::gen::inRange<std::int64_t>(0, 60);
  const auto rows = *rc::gen::container<std::vector<std::int64_t>>(static_cast<std::size_t>(n),
                                                                   rc::gen::inRange<std::int64_t>(0, 50));
  PlanSettings settings = with_encoder(*rc::gen::inRange(1, 6));
  settings.mini_batches.count = *rc::gen::inRange<std::int64_t>(1, 4);
  settings.mini_batches.keep = *rc::gen::arbitrary<bool>();
  const StepProblem problem{with_rows(made_up_table(n, 3), rows), settings};
  const EncoderWork work = work_of(problem);
  const Cost all = std::accumulate(work.assigned.begin(), work.assigned.end(), Cost{0});
  RC_ASSERT(all == 10 * std::accumulate(rows.begin(), rows.end(), Cost{0}));
  RC_ASSERT(assign_step_by_units(problem, assign_units(problem)) == assign_step(problem));
}

}  // namespace
}  // namespace evenkeel
