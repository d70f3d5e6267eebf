#include "plan/units/row_caps.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "base/id_range.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/units/pack_units.hpp"
#include "support/error_message.hpp"
#include "support/strategies.hpp"

// How a plan uses fields that belong to samples: caps on their rows, and the work that they specify. That
// caps hold in all combinations is tested in combinations_test.

namespace evenkeel::row_caps_test {
namespace {

using testing_support::use;

using testing::ElementsAre;
using testing_support::message_of;

/// Returns samples of (uid, prompt, response) with rows in a field that also specifies their work.
LengthTable table_of(const std::vector<std::array<std::int64_t, 4>>& samples) {
  std::vector<LengthEntry> entries;
  std::vector<std::int64_t> rows;
  for (const auto& [uid, prompt, response, of_sample] : samples) {
    const auto id = static_cast<int>(entries.size());
    entries.push_back({{SampleId{id}, static_cast<std::uint64_t>(uid), prompt, response}, WorldRank{0}, id});
    rows.push_back(of_sample);
  }
  LengthTable table(std::move(entries));
  table.set_row_counts({{"patches", rows}});
  table.set_field_sums({{"work", rows}});
  return table;
}

PlanSettings capped(std::int64_t rows) {
  PlanSettings settings;
  settings.micro_batch.max_tokens = 100;
  settings.micro_batch.max_rows["patches"] = rows;
  return settings;
}

std::vector<std::vector<std::int64_t>> micro_batches_of(const LengthTable& table,
                                                        const PlanSettings& settings) {
  std::vector<std::vector<std::int64_t>> micro_batches;
  for (const DpRankPlan& rank : plan_step({table, settings}).ranks)
    for (const MicroBatchPlan& m : rank.micro_batches) micro_batches.push_back(numbers_of(m.entries));
  return micro_batches;
}

TEST(RowCaps, split_samples_that_fit_under_the_cap_on_tokens) {
  const LengthTable table = table_of({{0, 0, 5, 3}, {1, 0, 5, 0}, {2, 0, 5, 2}});
  EXPECT_EQ(micro_batches_of(table, capped(5)).size(), 1U);
  EXPECT_EQ(micro_batches_of(table, capped(4)).size(), 2U);
}

TEST(RowCaps, end_a_fixed_micro_batch_only_if_necessary) {
  PlanSettings settings = capped(4);
  settings.strategy = FixedSettings{};
  use<FixedSettings>(settings).size = 3;
  const LengthTable table = table_of({{0, 0, 5, 4}, {1, 0, 5, 0}, {2, 0, 5, 0}, {3, 0, 5, 3}, {4, 0, 5, 2}});
  EXPECT_THAT(micro_batches_of(table, settings),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3), ElementsAre(4)));
}

TEST(RowCaps, split_samples_that_share_a_prompt) {
  PlanSettings settings = capped(4);
  settings.sharing = PrefixSharing::prompts;
  const LengthTable table = table_of({{7, 3, 5, 2}, {7, 3, 4, 2}, {7, 3, 3, 1}});
  EXPECT_EQ(micro_batches_of(table, settings).size(), 2U);
  EXPECT_EQ(make_units({table, settings}).repeated(), (RepeatedTokens{0, 0, 3}));
  settings.micro_batch.max_rows["patches"] = 5;
  EXPECT_EQ(micro_batches_of(table, settings).size(), 1U);
}

TEST(RowCaps, a_sample_above_a_cap_is_refused_with_field_rows_and_cap) {
  const LengthTable table = table_of({{0, 0, 5, 3}, {1, 0, 5, 9}});
  EXPECT_EQ(message_of([&] {
              (void)plan_step({table, capped(8)});
            }),
            "sample 1: has 9 rows of field 'patches', above its cap of 8 rows per micro-batch. Raise "
            "micro_batch.max_rows of the field to at least 9, or shorten or drop the sample");
}

TEST(RowCaps, caps_on_a_missing_field_are_refused_by_name) {
  PlanSettings settings = capped(8);
  settings.micro_batch.max_rows["frames"] = 3;
  EXPECT_THAT(message_of([&] {
                (void)plan_step({table_of({{0, 0, 5, 3}}), settings});
              }),
              testing::StartsWith("field 'frames': has a cap in micro_batch.max_rows"));
}

TEST(CostField, determines_the_cost_of_samples_regardless_of_length) {
  PlanSettings settings;
  settings.dp = 2;
  settings.balance.cost_field = "work";
  const LengthTable table = table_of({{0, 0, 50, 1}, {1, 0, 3, 9}, {2, 0, 40, 8}, {3, 0, 60, 2}});
  const StepPlan plan = plan_step({table, settings});
  EXPECT_EQ(plan.ranks[0].cost(), 10);
  EXPECT_EQ(plan.ranks[1].cost(), 10);
}

TEST(CostField, is_summed_over_samples_that_share_a_prompt) {
  PlanSettings settings;
  settings.balance.cost_field = "work";
  settings.sharing = PrefixSharing::prompts;
  EXPECT_EQ(plan_step({table_of({{7, 3, 5, 20}, {7, 3, 4, 30}}), settings}).ranks.front().cost(), 50);
}

TEST(CostField, is_refused_by_name_if_a_sample_does_not_have_it) {
  PlanSettings settings;
  settings.balance.cost_field = "tool_calls";
  EXPECT_THAT(message_of([&] {
                (void)plan_step({table_of({{0, 0, 5, 3}}), settings});
              }),
              testing::StartsWith("field 'tool_calls': is used by balance.cost"));
  EXPECT_EQ(plan_step({LengthTable(), settings}).num_micro_batches(), 1);
}

}  // namespace
}  // namespace evenkeel::row_caps_test
