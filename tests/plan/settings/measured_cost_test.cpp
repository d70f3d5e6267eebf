#include "plan/settings/measured_cost.hpp"

#include <gtest/gtest.h>

#include <random>

#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing_support::table_of;

constexpr TimeModel machine{0.02, 3e-6, 1e-9};

std::vector<CostObservation> times_of(const TimeModel& times, std::size_t n, unsigned seed = 9) {
  std::mt19937_64 random(seed);
  std::vector<CostObservation> observations(n);
  for (CostObservation& each : observations) {
    for (std::uint64_t sample = 0; sample <= random() % 8; ++sample) {
      const auto length = static_cast<std::int64_t>(100 + random() % 7900);
      each.tokens += length;
      each.squares += static_cast<double>(length * length);
    }
    each.seconds = times(each);
  }
  return observations;
}

TEST(Observe, sums_tokens_and_squared_lengths_of_a_micro_batch) {
  const LengthTable table = table_of({3, 5, 7});
  PlanSettings settings;
  const StepAssignment assignment = assign_step({table, settings});
  MicroBatchPlan plan = micro_batch_of(assignment.units, std::vector{UnitId{0}, UnitId{2}});
  const CostObservation packed = make_observation(table, assignment, plan, settings, DpRank{0}, 0.25);
  EXPECT_EQ(packed.tokens, 10);
  EXPECT_EQ(packed.squares, 9 + 49);
  EXPECT_EQ(packed.seconds, 0.25);
  plan.padded_length = 8;
  const CostObservation padded = make_observation(table, assignment, plan, settings, DpRank{0}, 0.25);
  EXPECT_EQ(padded.tokens, 16);
  EXPECT_EQ(padded.squares, 128);
}

TEST(Observe, counts_a_shared_prefix_once) {
  const LengthTable table(
      {{{SampleId{0}, 4, 10, 2}, WorldRank{0}, 0}, {{SampleId{1}, 4, 10, 3}, WorldRank{0}, 1}});
  PlanSettings settings;
  settings.sharing = PrefixSharing::prompts;
  const StepPlan plan = plan_step({table, settings});
  const CostObservation seen = make_observation(table, assign_step({table, settings}),
                                                plan.ranks[0].micro_batches[0], settings, DpRank{0}, 1);
  EXPECT_EQ(seen.tokens, 15);
  EXPECT_EQ(seen.squares, 100 + (144 - 100) + (169 - 100));
}

TEST(Observe, squares_grow_linearly_beyond_the_window) {
  const LengthTable table = table_of({10});
  PlanSettings settings;
  settings.balance.cost = {1, 1, 4};
  const MicroBatchPlan plan = micro_batch_of(make_units({table, settings}), std::vector{UnitId{0}});
  EXPECT_EQ(make_observation(table, assign_step({table, settings}), plan, settings, DpRank{0}, 1).squares,
            16 + 2 * 4 * (10 - 4));
}

TEST(Observe, a_slow_ranks_time_counts_as_that_of_a_nominal_one) {
  const LengthTable table = table_of({10, 10});
  PlanSettings settings;
  settings.dp = 2;
  settings.balance.speeds = {1000, 500};
  const CostObservation seen = make_observation(
      table, assign_step({table, settings}),
      micro_batch_of(make_units({table, settings}), std::vector{UnitId{0}}), settings, DpRank{1}, 3);
  EXPECT_DOUBLE_EQ(seen.seconds, 1.5);
}

TEST(Observe, a_groups_time_counts_as_that_of_its_slowest_rank) {
  const LengthTable table = table_of({10, 10});
  PlanSettings settings;
  settings.dp = 4;
  settings.strategy = ContextTreeSettings{4};
  settings.balance.speeds = {1000, 1000, 1000, 500};
  MicroBatchPlan plan = micro_batch_of(make_units({table, settings}), std::vector{UnitId{0}});
  plan.context = {DataPlace{2}, 2};
  const StepAssignment assignment = assign_step({table, settings});
  EXPECT_DOUBLE_EQ(make_observation(table, assignment, plan, settings, DpRank{2}, 3).seconds, 1.5);
  plan.context = {DataPlace{0}, 2};
  EXPECT_DOUBLE_EQ(make_observation(table, assignment, plan, settings, DpRank{1}, 3).seconds, 3);
}

TEST(Observe, the_ranks_of_a_group_of_its_own_size) {
  const LengthTable table = table_of({10, 10});
  PlanSettings settings;
  MicroBatchPlan plan = micro_batch_of(make_units({table, settings}), std::vector{UnitId{0}});
  plan.context.size = 4;
  EXPECT_EQ(make_observation(table, assign_step({table, settings}), plan, settings, DpRank{0}, 1).ranks, 1);
  settings.strategy = ContextTreeSettings{1};
  EXPECT_EQ(make_observation(table, assign_step({table, settings}), plan, settings, DpRank{0}, 1).ranks, 4);
}

/// Returns times of groups of 1, 2 and `most` ranks in turn; no communication is hidden.
std::vector<CostObservation> times_of_groups(const TimeModel& times, std::int64_t most) {
  std::vector<CostObservation> observations = times_of(times, 120);
  for (std::size_t i = 0; i < observations.size(); ++i) {
    CostObservation& each = observations[i];
    each.ranks = i % 3 == 0 ? 1 : i % 3 == 1 ? 2 : most;
    const auto ranks = static_cast<double>(each.ranks);
    const double hop = (each.ranks <= 4 ? times.inside_node : times.between_nodes).value();
    each.seconds =
        times.overhead +
        (times(each) - times.overhead + hop * (ranks - 1) * static_cast<double>(each.tokens)) / ranks;
  }
  return observations;
}

constexpr TimeModel cluster{0.02, 3e-6, 1e-9, 2e-7, 5e-7};

TEST(MeasuredCostModel, measures_the_cost_of_communication_in_groups) {
  MeasuredCostModel costs(CostModel::tokens(), 1000, CommunicationSettings{7, 7, 4, 0});
  costs.learn(times_of_groups(cluster, 8));
  BalanceSettings balance;
  balance.communication = {7, 7, 4, 0};
  costs.current_cost().apply_to(balance);
  EXPECT_EQ(balance.cost, (CostModel{3000, 1}));
  EXPECT_EQ(balance.overhead, 20'000'000);
  EXPECT_EQ(balance.communication, (CommunicationSettings{200, 500, 4, 0}));
  EXPECT_FALSE(costs.current_cost().communication->inside_node.kept);
  EXPECT_FALSE(costs.current_cost().communication->between_nodes.kept);
}

TEST(MeasuredCostModel, undetermined_communication_keeps_its_proportion_to_a_token) {
  MeasuredCostModel given(CostModel{1000, 0}, 1000, CommunicationSettings{7, 100, 4, 0});
  MeasuredCostModel without_tokens(CostModel{0, 10}, 1000, CommunicationSettings{7, 2000, 4, 0});
  MeasuredCostModel usual(CostModel::tokens(), 1000, CommunicationSettings{{}, {}, 4, 0});
  for (MeasuredCostModel* costs : {&given, &without_tokens, &usual}) {
    costs->learn(times_of_groups(cluster, 4));
    const CommunicationInUse current_cost = costs->current_cost().communication.value();
    EXPECT_EQ(current_cost.inside_node.cost, 200);
    EXPECT_FALSE(current_cost.inside_node.kept);
    EXPECT_TRUE(current_cost.between_nodes.kept);
  }
  EXPECT_EQ(given.current_cost().communication->between_nodes.cost, 300);
  EXPECT_EQ(without_tokens.current_cost().communication->between_nodes.cost, 200);
  EXPECT_EQ(usual.current_cost().communication->between_nodes.cost, 3000 * 2500 / 24576);
}

TEST(MeasuredCostModel, measured_communication_stays_if_later_times_do_not_determine_it) {
  MeasuredCostModel costs(CostModel::tokens(), 120, CommunicationSettings{7, 7, 4, 0});
  costs.learn(times_of_groups(cluster, 8));
  costs.learn(times_of_groups(cluster, 1));
  const CommunicationInUse current_cost = costs.current_cost().communication.value();
  EXPECT_EQ(current_cost.inside_node.cost, 200);
  EXPECT_EQ(current_cost.between_nodes.cost, 500);
  EXPECT_TRUE(current_cost.between_nodes.kept);
  MeasuredCostModel resumed(CostModel::tokens(), 120, CommunicationSettings{7, 7, 4, 0});
  resumed.restore_fit(costs.current_cost().times.value(), 120);
  BalanceSettings before;
  BalanceSettings after;
  costs.current_cost().apply_to(before);
  resumed.current_cost().apply_to(after);
  EXPECT_EQ(before, after);
}

TEST(MeasuredCostModel, begins_with_the_configured_model) {
  const MeasuredCostModel costs(CostModel::flops_7b(), 100);
  EXPECT_EQ(costs.current_cost(), (CostInUse{CostModel::flops_7b(), std::nullopt, 0, false}));
  EXPECT_EQ(costs.current_cost().overhead, std::nullopt);
}

TEST(MeasuredCostModel, follows_the_machine) {
  MeasuredCostModel costs(CostModel::tokens(), 1000);
  costs.learn(times_of(machine, 40));
  EXPECT_EQ(costs.current_cost().model, (CostModel{3000, 1}));
  EXPECT_EQ(costs.current_cost().overhead, 20'000'000);
  EXPECT_EQ(costs.current_cost().observations, 40);
  EXPECT_FALSE(costs.current_cost().kept);
}

TEST(MeasuredCostModel, too_few_or_equal_times_do_not_change_the_model) {
  MeasuredCostModel costs(CostModel::flops_7b(), 1000);
  costs.learn(times_of(machine, 15));
  EXPECT_EQ(costs.current_cost(), (CostInUse{CostModel::flops_7b(), std::nullopt, 15, true}));
  MeasuredCostModel alike(CostModel::flops_7b(), 1000);
  alike.learn(std::vector<CostObservation>(50, CostObservation{100, 10000, 0.5, 0}));
  EXPECT_EQ(alike.current_cost(), (CostInUse{CostModel::flops_7b(), std::nullopt, 50, true}));
}

TEST(MeasuredCostModel, a_failed_fit_keeps_the_last_successful_one) {
  MeasuredCostModel costs(CostModel::tokens(), 30);
  costs.learn(times_of(machine, 30));
  const CostModel fitted = costs.current_cost().model;
  costs.learn(std::vector<CostObservation>(30, CostObservation{100, 10000, 0.5, 0}));
  EXPECT_EQ(costs.current_cost().model, fitted);
  EXPECT_TRUE(costs.current_cost().kept);
  EXPECT_TRUE(costs.current_cost().times);
}

TEST(MeasuredCostModel, drops_observations_older_than_its_window) {
  constexpr TimeModel other{0.001, 1e-6, 2e-9};
  MeasuredCostModel costs(CostModel::tokens(), 64);
  costs.learn(times_of(machine, 64));
  costs.learn(times_of(other, 63));
  EXPECT_EQ(costs.current_cost().observations, 64);
  costs.learn(times_of(other, 1, 10));
  EXPECT_EQ(costs.current_cost().model, (CostModel{500 * 16, 16}));
}

TEST(MeasuredCostModel, keeps_the_window_of_attention) {
  MeasuredCostModel costs(CostModel{1, 1, 4096}, 100);
  costs.learn(times_of(machine, 40));
  EXPECT_EQ(costs.current_cost().model, (CostModel{3000, 1, 4096}));
}

}  // namespace
}  // namespace evenkeel
