#include "plan/micro_batches/micro_batches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/strategies/strategy.hpp"
#include "support/made_up_table.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::table_of;

PlanSettings capped(std::int64_t max_tokens) {
  PlanSettings settings;
  settings.micro_batch.max_tokens = max_tokens;
  return settings;
}

/// Returns a step on one DP rank.
DpRankPlan planned(const LengthTable& table, const PlanSettings& settings) {
  return plan_step({table, settings}).ranks.front();
}

std::vector<MicroBatchPlan> with_costs(const std::vector<Cost>& costs) {
  std::vector<MicroBatchPlan> micro_batches;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    micro_batches.push_back({{EntryId{static_cast<std::int64_t>(i)}}, costs[i], costs[i], costs[i]});
  }
  return micro_batches;
}

std::vector<Cost> costs_of(const std::vector<MicroBatchPlan>& micro_batches) {
  std::vector<Cost> costs;
  for (const MicroBatchPlan& m : micro_batches) costs.push_back(m.cost);
  return costs;
}

TEST(OrderMicroBatches, pipeline_order_has_cheap_micro_batches_at_both_ends) {
  std::vector<MicroBatchPlan> micro_batches = with_costs({3, 5, 1, 4, 2});
  order_micro_batches(micro_batches, MicroBatchOrder::pipeline);
  EXPECT_THAT(costs_of(micro_batches), ElementsAre(1, 3, 5, 4, 2));
}

TEST(OrderMicroBatches, cost_order_is_descending_and_plan_order_changes_nothing) {
  std::vector<MicroBatchPlan> micro_batches = with_costs({3, 5, 1, 4, 2});
  order_micro_batches(micro_batches, MicroBatchOrder::plan);
  EXPECT_THAT(costs_of(micro_batches), ElementsAre(3, 5, 1, 4, 2));
  order_micro_batches(micro_batches, MicroBatchOrder::cost);
  EXPECT_THAT(costs_of(micro_batches), ElementsAre(5, 4, 3, 2, 1));
}

TEST(OrderMicroBatches, empty_and_single_lists_are_unchanged) {
  std::vector<MicroBatchPlan> none;
  order_micro_batches(none, MicroBatchOrder::pipeline);
  EXPECT_TRUE(none.empty());
  std::vector<MicroBatchPlan> one = with_costs({7});
  order_micro_batches(one, MicroBatchOrder::pipeline);
  EXPECT_THAT(costs_of(one), ElementsAre(7));
}

TEST(OrderMicroBatches, schedule_order_ends_first_and_is_pipeline_order_with_one_stage) {
  PlanSettings settings;
  settings.micro_batch.order = MicroBatchOrder::schedule;
  std::vector<MicroBatchPlan> micro_batches = with_costs({3, 5, 1, 4, 2});
  order_micro_batches(micro_batches, settings, settings.dp);
  EXPECT_THAT(costs_of(micro_batches), ElementsAre(1, 3, 5, 4, 2));
  settings.pp = 4;
  order_micro_batches(micro_batches, settings, settings.dp);
  EXPECT_THAT(costs_of(micro_batches), ElementsAre(1, 2, 3, 5, 4));
}

// MindSpeed's worked example: [1,2,2,5,3,7,6,3] in four micro-batches; the groups in the document,
// [[1,7],[2,6],[2,5],[3,3]], have at most 8 tokens each.
TEST(PlanMicroBatches, mindspeeds_example_is_as_even_as_the_document_says) {
  const LengthTable table = table_of({1, 2, 2, 5, 3, 7, 6, 3});
  const PlanSettings settings = capped(8);
  const DpRankPlan plan = planned(table, settings);
  EXPECT_EQ(plan.lower_bound, 4);
  EXPECT_EQ(plan.needed, 4);
  std::int64_t samples = 0;
  for (const MicroBatchPlan& m : plan.micro_batches) {
    EXPECT_LE(m.tokens, 8);
    EXPECT_GE(m.tokens, 7);
    samples += static_cast<std::int64_t>(m.entries.size());
  }
  EXPECT_EQ(samples, 8);
}

// golden/README row 2: the reference puts 14 tokens under a cap of 13.
TEST(PlanMicroBatches, keeps_the_cap_that_the_reference_breaks) {
  const LengthTable table = table_of({2, 3, 3, 4, 6, 6, 6, 8});
  const PlanSettings settings = capped(13);
  const DpRankPlan plan = planned(table, settings);
  EXPECT_EQ(plan.lower_bound, 3);
  for (const MicroBatchPlan& m : plan.micro_batches) EXPECT_LE(m.tokens, 13);
}

// Row 3: dynamic_max_batch_size is the maximum number of samples in a micro-batch, not just a count.
TEST(PlanMicroBatches, keeps_the_sample_limit_that_the_reference_breaks) {
  const LengthTable table = table_of({1, 1, 1, 3});
  PlanSettings settings = capped(6);
  settings.micro_batch.max_samples = 2;
  const DpRankPlan plan = planned(table, settings);
  EXPECT_EQ(plan.needed, 2);
  for (const MicroBatchPlan& m : plan.micro_batches) EXPECT_LE(m.entries.size(), 2U);
}

// Row 7: [2,2,2] under a cap of 3 needs three micro-batches, not ceil(6/3).
TEST(PlanMicroBatches, the_count_grows_until_the_cap_holds) {
  const LengthTable table = table_of({2, 2, 2});
  EXPECT_EQ(planned(table, capped(3)).needed, 3);
}

// Row 12: the cap applies to aligned lengths.
TEST(PlanMicroBatches, the_cap_counts_tokens_after_alignment) {
  const LengthTable table = table_of({16, 16, 16});
  PlanSettings settings = capped(24);
  settings.align_lcm = 16;
  EXPECT_EQ(planned(table, settings).needed, 3);
  settings.micro_batch.max_tokens = 32;
  EXPECT_EQ(planned(table, settings).needed, 2);
}

// Rows 8 and 13: if there are more micro-batches than samples, some are empty; this is never an assertion
// failure.
TEST(PlanMicroBatches, adds_empty_micro_batches_if_there_are_too_few_samples) {
  PlanSettings settings = capped(1);
  settings.micro_batch.min_count = 3;
  const std::vector<MicroBatchPlan> micro_batches = planned(table_of({1}), settings).micro_batches;
  ASSERT_EQ(micro_batches.size(), 3U);
  EXPECT_EQ(std::ranges::count_if(micro_batches, &MicroBatchPlan::empty), 2);
}

TEST(AgreedCount, is_at_least_the_minimum_and_a_multiple_of_what_the_pipeline_needs) {
  PlanSettings settings;
  EXPECT_EQ(agreed_count(0, settings), 1);
  EXPECT_EQ(agreed_count(5, settings), 5);
  settings.micro_batch.min_count = 8;
  EXPECT_EQ(agreed_count(5, settings), 8);
  settings.pp = 3;
  settings.vpp = 2;
  EXPECT_EQ(agreed_count(5, settings), 9);
}

void require_samples_fit(const LengthTable& table, const PlanSettings& settings) {
  strategy_of(settings).require_samples_fit(table, settings);
}

TEST(RequireSamplesFit, names_the_sample_its_lengths_and_the_cap) {
  PlanSettings settings = capped(100);
  settings.tp = 8;
  try {
    require_samples_fit(table_of({5, 96, 97, 200}), settings);
    FAIL() << "97 tokens are 104 after alignment";
  } catch (const LimitError& error) {
    EXPECT_EQ(error.report().where, "sample 2");
    EXPECT_THAT(error.what(), HasSubstr("97 tokens, 104 after alignment to 8, above the cap of 100"));
    EXPECT_THAT(error.what(), HasSubstr("at least 104"));
  }
  EXPECT_NO_THROW(require_samples_fit(table_of({5, 96}), settings));
}

TEST(RequireSamplesFit, refuses_padded_samples_whose_work_could_overflow) {
  PlanSettings settings = capped(8192);
  settings.strategy = PaddedSettings{};
  settings.balance.cost = {std::int64_t{1} << 55, 0};
  // If each is padded to 64 tokens, the total cost is 2^61.
  EXPECT_THROW(require_samples_fit(table_of({1, 1, 1, 1, 1, 1, 1, 1}), settings), LimitError);
  EXPECT_NO_THROW(require_samples_fit(table_of({1}), settings));
  settings.strategy = PackedSettings{};
  EXPECT_NO_THROW(require_samples_fit(table_of({1, 1, 1, 1, 1, 1, 1, 1}), settings));
}

TEST(RequireSamplesFit, suggests_no_cap_above_the_maximum) {
  PlanSettings settings = capped(2147483647);
  settings.tp = 2;
  for (const std::int64_t length : {std::int64_t{2147483647}, std::int64_t{1} << 61}) {
    try {
      require_samples_fit(table_of({length}), settings);
      FAIL() << length << " tokens are above every cap";
    } catch (const LimitError& error) {
      EXPECT_EQ(error.report().hint, "Shorten or drop the sample: the cap cannot be more than 2147483647");
    }
  }
}

std::vector<std::vector<std::int64_t>> entries_of(const std::vector<MicroBatchPlan>& micro_batches) {
  std::vector<std::vector<std::int64_t>> entries;
  for (const MicroBatchPlan& m : micro_batches) entries.push_back(numbers_of(m.entries));
  return entries;
}

TEST(PlanMicroBatches, a_named_packing_gives_the_bins_of_that_algorithm) {
  // First fit puts the 3 into the bin of the 6, best fit into that of the 7.
  const LengthTable table = table_of({6, 7, 3, 4});
  PlanSettings settings = capped(10);
  settings.micro_batch.order = MicroBatchOrder::plan;
  const auto packed = [&](BinPacking packing) {
    use<PackedSettings>(settings).packing = packing;
    return entries_of(planned(table, settings).micro_batches);
  };
  EXPECT_THAT(packed(BinPacking::first_fit_decreasing), ElementsAre(ElementsAre(1, 2), ElementsAre(0, 3)));
  for (const BinPacking packing : {BinPacking::first_fit_decreasing, BinPacking::best_fit_decreasing,
                                   BinPacking::modified_first_fit_decreasing}) {
    EXPECT_EQ(packed(packing),
              pack_bins(table.sample_lengths(), settings.limits(), packing).with_sorted_items().to_vectors());
  }
}

TEST(PlanMicroBatches, a_named_packing_adds_empty_micro_batches_and_does_not_balance) {
  const LengthTable table = table_of({5, 5, 5});
  PlanSettings settings = capped(10);
  use<PackedSettings>(settings).packing = BinPacking::first_fit_decreasing;
  settings.micro_batch.order = MicroBatchOrder::cost;
  settings.micro_batch.min_count = 3;
  const DpRankPlan plan = planned(table, settings);
  EXPECT_EQ(plan.lower_bound, 2);
  EXPECT_EQ(plan.needed, 2);
  EXPECT_THAT(entries_of(plan.micro_batches), ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre()));
}

}  // namespace
}  // namespace evenkeel
