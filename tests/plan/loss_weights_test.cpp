#include "plan/loss_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "support/ids.hpp"
#include "support/made_up_table.hpp"
#include "support/whole_loss.hpp"

namespace evenkeel {
namespace {

using testing_support::all_aggregations;
using testing_support::ids;
using testing_support::made_up_table;
using testing_support::mix;
using testing_support::SampleLoss;

/// Returns a nonlinear loss of loss token t of a sample.
double loss_of(const LengthEntry& entry, std::int64_t t) {
  const std::uint64_t bits =
      mix(static_cast<std::uint64_t>(entry.shape.id.value()), static_cast<std::uint64_t>(t));
  return std::log1p(static_cast<double>(bits % 10007)) - std::sin(static_cast<double>(t));
}

double sum_of_losses(const LengthEntry& entry) {
  double sum = 0;
  for (std::int64_t t = 0; t < loss_tokens_of(entry); ++t) sum += loss_of(entry, t);
  return sum;
}

/// Returns the loss without splitting, by definition.
double whole_loss(const LengthTable& table, const LossSettings& settings) {
  std::vector<SampleLoss<double>> samples;
  for (const LengthEntry& entry : table.entries()) {
    const std::int64_t tokens = loss_tokens_of(entry);
    if (settings.fully_masked == FullyMasked::count || tokens > 0)
      samples.push_back({entry.shape.group, sum_of_losses(entry), tokens});
  }
  return testing_support::whole_loss(samples, settings.aggregation, settings.norm_length);
}

std::vector<EntryId> all_entries(const LengthTable& table) {
  return testing_support::all_ids<EntryId>(table.size());
}

/// Returns the result of a trainer's own reductions of the micro-batches' values.
template <typename Value>
double reduced(const StepPlan& plan, const LengthTable& table, const LossSettings& settings, Value value) {
  const auto dp = static_cast<int>(plan.ranks.size());
  double over_ranks = 0;
  for (const DpRankPlan& rank : plan.ranks) {
    const std::vector<MicroBatchLoss> losses =
        loss_weights(table, all_entries(table), rank.micro_batches, settings, dp);
    double over_micro_batches = 0;
    for (std::size_t m = 0; m < losses.size(); ++m)
      over_micro_batches += value(rank.micro_batches[m], losses[m]);
    if (settings.micro_batches == Reduction::mean) over_micro_batches /= static_cast<double>(losses.size());
    over_ranks += over_micro_batches;
  }
  return settings.dp_ranks == Reduction::mean ? over_ranks / dp : over_ranks;
}

double split_loss(const StepPlan& plan, const LengthTable& table, const LossSettings& settings) {
  return reduced(plan, table, settings, [&](const MicroBatchPlan& m, const MicroBatchLoss& loss) {
    double sum = 0;
    for (std::size_t i = 0; i < m.entries.size(); ++i)
      sum += loss.token_weights[i] * sum_of_losses(table[m.entries[i]]);
    return loss.scale * sum;
  });
}

LengthTable any_table() {
  std::vector<LengthEntry> entries;
  const auto samples = *rc::gen::inRange(0, 40);
  for (int id = 0; id < samples; ++id) {
    const SampleShape shape{SampleId{id}, static_cast<std::uint64_t>(id / 3),
                            *rc::gen::inRange<std::int64_t>(0, 9), *rc::gen::inRange<std::int64_t>(0, 30)};
    const bool supplied = *rc::gen::arbitrary<bool>();
    entries.push_back(
        {shape, WorldRank{0}, id, supplied ? *rc::gen::inRange<std::int64_t>(0, shape.length() + 1) : -1});
  }
  return LengthTable(std::move(entries));
}

StepPlan any_plan(const LengthTable& table) {
  PlanSettings settings;
  settings.dp = *rc::gen::inRange(1, 6);
  settings.micro_batch.max_tokens = *rc::gen::inRange<std::int64_t>(40, 200);
  settings.micro_batch.min_count = *rc::gen::inRange<std::int64_t>(1, 6);
  return plan_step({table, settings});
}

LossSettings any_settings(LossAggregation mode) {
  return {mode, *rc::gen::element(Reduction::sum, Reduction::mean),
          *rc::gen::element(Reduction::sum, Reduction::mean),
          *rc::gen::element(FullyMasked::count, FullyMasked::skip), *rc::gen::inRange<std::int64_t>(1, 100)};
}

RC_GTEST_PROP(LossWeights, every_split_gives_the_unsplit_loss_for_every_mode_and_trainer, ()) {
  const LengthTable table = any_table();
  const StepPlan plan = any_plan(table);
  for (const LossAggregation mode : all_aggregations) {
    const LossSettings settings = any_settings(mode);
    const double expected = whole_loss(table, settings);
    RC_ASSERT(std::abs(split_loss(plan, table, settings) - expected) <=
              1e-12 * std::max(1.0, std::abs(expected)));
  }
}

RC_GTEST_PROP(LossWeights, local_token_means_add_up_too, ()) {
  const LengthTable table = any_table();
  const StepPlan plan = any_plan(table);
  const LossSettings settings = any_settings(LossAggregation::token_mean);
  const double loss =
      reduced(plan, table, settings, [&](const MicroBatchPlan& m, const MicroBatchLoss& weights) {
        double sum = 0;
        std::int64_t tokens = 0;
        for (const EntryId entry : m.entries) {
          sum += sum_of_losses(table[entry]);
          tokens += loss_tokens_of(table[entry]);
        }
        return tokens == 0 ? 0.0 : weights.mean_weight * sum / static_cast<double>(tokens);
      });
  RC_ASSERT(std::abs(loss - whole_loss(table, settings)) <= 1e-12 * std::max(1.0, std::abs(loss)));
}

RC_GTEST_PROP(LossWeights, omega_sums_to_one_in_the_mean_modes, ()) {
  const LengthTable table = any_table();
  const StepPlan plan = any_plan(table);
  const bool any_loss =
      std::ranges::any_of(table.entries(), [](const LengthEntry& e) { return loss_tokens_of(e) > 0; });
  for (const LossAggregation mode :
       {LossAggregation::token_mean, LossAggregation::seq_mean_token_mean, LossAggregation::prompt_mean}) {
    LossSettings settings{mode, Reduction::sum, Reduction::sum, FullyMasked::skip, 1};
    const double sum =
        reduced(plan, table, settings, [&](const MicroBatchPlan& m, const MicroBatchLoss& loss) {
          double of_micro_batch = 0;
          for (std::size_t i = 0; i < m.entries.size(); ++i) {
            of_micro_batch +=
                loss.token_weights[i] * static_cast<double>(loss_tokens_of(table[m.entries[i]]));
          }
          return of_micro_batch;
        });
    RC_ASSERT(std::abs(sum - (any_loss ? 1.0 : 0.0)) <= 1e-12);
  }
}

TEST(LossWeights, scales_undo_what_each_trainer_does) {
  const LengthTable table = testing_support::table_of({5, 6, 7, 8});
  const std::vector<MicroBatchPlan> micro_batches{
      {ids<EntryId>({0, 1}), 11, 11, 11}, {ids<EntryId>({2}), 7, 7, 7}, {}};
  const auto scale = [&](Reduction over_micro_batches, Reduction over_ranks) {
    return loss_weights(table, all_entries(table), micro_batches,
                        {LossAggregation::token_mean, over_micro_batches, over_ranks, {}, 1}, 4)
        .front()
        .scale;
  };
  EXPECT_DOUBLE_EQ(scale(Reduction::mean, Reduction::mean), 12);  // Megatron: n * D
  EXPECT_DOUBLE_EQ(scale(Reduction::sum, Reduction::mean), 4);    // FSDP, DDP: D
  EXPECT_DOUBLE_EQ(scale(Reduction::sum, Reduction::sum), 1);
}

TEST(LossWeights, empty_and_fully_masked_micro_batches_weigh_nothing_and_are_never_nan) {
  LengthTable table(std::vector<LengthEntry>{{{SampleId{0}, 0, 3, 4}, WorldRank{0}, 0, 0}});
  const std::vector<MicroBatchPlan> micro_batches{{ids<EntryId>({0}), 7, 7, 7}, {}};
  for (const LossAggregation mode : all_aggregations) {
    for (const MicroBatchLoss& loss :
         loss_weights(table, all_entries(table), micro_batches, {mode, {}, {}, FullyMasked::skip, 1}, 2)) {
      EXPECT_EQ(loss.mean_weight, 0.0);
      for (const double weight : loss.token_weights) EXPECT_EQ(weight, 0.0);
    }
  }
}

// MindSpeed-RL multiplies a micro-batch's token mean by b_i / (B / n): a mean of token means, weighted by
// samples.
TEST(LossWeights, mindspeeds_own_rule_is_offered_by_name_and_depends_on_the_split) {
  const LengthTable table = testing_support::table_of({101, 11, 11, 11});
  const LossSettings settings{LossAggregation::mindspeed_rl, Reduction::mean, Reduction::mean,
                              FullyMasked::count, 1};
  const std::vector<MicroBatchPlan> one_and_three{{ids<EntryId>({0}), 101, 101, 101},
                                                  {ids<EntryId>({1, 2, 3}), 33, 33, 33}};
  const std::vector<MicroBatchLoss> losses =
      loss_weights(table, all_entries(table), one_and_three, settings, 1);
  EXPECT_DOUBLE_EQ(losses[0].mean_weight, 1 / (4 / 2.0));
  EXPECT_DOUBLE_EQ(losses[1].mean_weight, 3 / (4 / 2.0));
  const LossSettings exact{LossAggregation::token_mean, Reduction::mean, Reduction::mean, FullyMasked::count,
                           1};
  EXPECT_NE(loss_weights(table, all_entries(table), one_and_three, exact, 1)[0].mean_weight,
            losses[0].mean_weight);
}

TEST(LossWeights, loss_tokens_follow_from_the_lengths_unless_a_mask_was_counted) {
  EXPECT_EQ(response_loss_tokens({SampleId{0}, 0, 4, 3}), 3);
  EXPECT_EQ(response_loss_tokens({SampleId{0}, 0, 0, 3}), 2);
  EXPECT_EQ(response_loss_tokens({SampleId{0}, 0, 0, 0}), 0);
  EXPECT_EQ(loss_tokens_of({{SampleId{0}, 0, 4, 3}, WorldRank{0}, 0, 1}), 1);
}

TEST(LossWeights, count_the_tokens_that_rows_predict_ahead) {
  EXPECT_EQ(loss_tokens_ahead({{SampleId{0}, 0, 4, 3}}, 2), 3);
  EXPECT_EQ(loss_tokens_ahead({{SampleId{0}, 0, 1, 3}}, 2), 1);
  EXPECT_EQ(loss_tokens_ahead({{SampleId{0}, 0, 0, 3}}, 1), 1);
  EXPECT_EQ(loss_tokens_ahead({{SampleId{0}, 0, 0, 1}}, 3), 0);
  EXPECT_EQ(loss_tokens_ahead({{SampleId{0}, 0, 4, 3}, WorldRank{0}, 0, 1}, 0), 1);
}

// Samples with 3 and 1 response tokens; the second one has nothing before its second token.
TEST(LossWeights, give_each_depth_its_own_loss) {
  const LengthTable table({{{SampleId{0}, 0, 2, 3}}, {{SampleId{1}, 1, 0, 2}}});
  PlanSettings settings;
  const StepPlan plan = plan_step({table, settings});
  const auto weights = [&](std::int64_t ahead) {
    return loss_weights(table, all_entries(table), plan.ranks[0].micro_batches, {}, 1, ahead)
        .front()
        .token_weights;
  };
  EXPECT_THAT(weights(0), testing::Each(0.25));
  EXPECT_THAT(weights(1), testing::UnorderedElementsAre(1.0 / 3, 0));
}

TEST(LossWeights, each_mini_batch_is_a_loss_of_its_own) {
  const LengthTable table = made_up_table(40, 3);
  PlanSettings plan_settings;
  plan_settings.dp = 2;
  plan_settings.mini_batches.count = 3;
  const StepAssignment assignment = assign_step({table, plan_settings});
  const StepPlan plan = plan_step({table, plan_settings});
  for (const LossAggregation mode : all_aggregations) {
    const LossSettings settings{mode, Reduction::mean, Reduction::mean, FullyMasked::count, 7};
    for (const DpRankPlan& rank : plan.ranks) {
      const auto losses = loss_weights(table, assignment, rank.micro_batches, settings, 2);
      ASSERT_EQ(losses.size(), rank.micro_batches.size());
      for (const MiniBatchId b : ids_below<MiniBatchId>(3)) {
        std::vector<MicroBatchPlan> of_mini_batch;
        std::vector<MicroBatchLoss> expected;
        for (std::size_t m = 0; m < losses.size(); ++m) {
          if (rank.micro_batches[m].mini_batch != b) continue;
          of_mini_batch.push_back(rank.micro_batches[m]);
          expected.push_back(losses[m]);
        }
        const auto members = assignment.entries_of(b);
        EXPECT_EQ(loss_weights(table, members, of_mini_batch, settings, 2), expected);
      }
    }
  }
}

TEST(LossWeights, a_norm_length_below_one_is_refused) {
  LossSettings settings;
  settings.norm_length = 0;
  EXPECT_THROW((void)loss_weights({}, std::vector<EntryId>{}, {}, settings, 1), ConfigError);
}

RC_GTEST_PROP(StepLosses, match_those_computed_by_each_rank, ()) {
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(1, 60), 3);
  PlanSettings settings;
  settings.dp = *rc::gen::inRange(1, 5);
  settings.mini_batches.count = *rc::gen::inRange<std::int64_t>(1, 4);
  settings.micro_batch.max_tokens = 96;
  LossSettings loss;
  loss.aggregation = *rc::gen::elementOf(all_aggregations);
  const StepProblem problem{table, settings};
  const StepPlan plan = plan_step(problem);
  const StepAssignment assignment = assign_step(problem);
  const std::vector<std::vector<MicroBatchLoss>> losses = step_losses(table, plan, loss);
  RC_ASSERT(losses.size() == plan.ranks.size());
  for (std::size_t r = 0; r < losses.size(); ++r)
    RC_ASSERT(losses[r] == loss_weights(table, assignment, plan.ranks[r].micro_batches, loss, settings.dp));
}

}  // namespace
}  // namespace evenkeel
