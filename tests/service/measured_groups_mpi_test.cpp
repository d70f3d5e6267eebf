// Costs that follow measured times of micro-batches on groups of different sizes, including communication.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <cstdint>
#include <functional>
#include <numeric>

#include "evenkeel/service/data_service.hpp"
#include "report/run_report.hpp"
#include "service/skewed_share.hpp"
#include "service/step_record.hpp"

namespace evenkeel::measured_groups_test {
namespace {

RaggedBatch share_of(const boost::mpi::communicator& comm, std::int64_t step) {
  return test::skewed_share(comm, step, 64, 78);
}

/// Returns a configuration of nodes with two ranks, on which half of attention hides communication.
Config measured_groups(int ranks, Strategy strategy) {
  Config config;
  config.mesh.flexible_cp = true;
  config.balance.measured = MeasuredCost{};
  config.balance.strategy = strategy;
  config.balance.communication = {0, 0, 2, 500};
  config.micro_batch.max_tokens_per_rank = ranks == 1 ? 700 : ranks < 4 ? 330 : 170;
  return config;
}

/// A machine on which passing keys and values between ranks is so expensive that attention hides it only for
/// the longest samples.
constexpr TimeModel machine{0.0001, 2e-6, 1e-8, 2e-6, 5e-6};

double seconds_of(const MicroBatch& m) {
  CostObservation seen;
  for (const SampleShape& sample : m.tensors.samples) {
    seen.tokens += sample.length();
    seen.squares += static_cast<double>(sample.length() * sample.length());
  }
  const double hop = (m.context.size <= 2 ? machine.inside_node : machine.between_nodes).value();
  const double all = hop * (m.context.size - 1) * static_cast<double>(seen.tokens);
  const double exposed = std::max(0.0, all - 0.5 * machine.quadratic * seen.squares);
  return machine.overhead + (machine(seen) - machine.overhead + exposed) / m.context.size;
}

enum class Reports : std::uint8_t { all_members, first_member };

void report(const DataService& service, const Step& step, Reports who = Reports::all_members) {
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const MicroBatch& micro_batch = step.micro_batches[m];
    if (micro_batch.tensors.samples.empty()) continue;
    if (who == Reports::first_member && micro_batch.tensors.cp_rank.value() != 0) continue;
    service.report_time(step, m, seconds_of(micro_batch));
  }
}

/// Returns when the machine has finished the step: ranks are synchronized at its end, or at every
/// micro-batch.
double end_of_step(const boost::mpi::communicator& world, const Step& step, Strategy strategy) {
  std::vector<double> seconds;
  for (const MicroBatch& m : step.micro_batches)
    seconds.push_back(m.tensors.samples.empty() ? 0 : seconds_of(m));
  if (strategy == Strategy::hierarchical) seconds = {std::accumulate(seconds.begin(), seconds.end(), 0.0)};
  std::vector<double> longest(seconds.size());
  boost::mpi::all_reduce(world, seconds.data(), static_cast<int>(seconds.size()), longest.data(),
                         boost::mpi::maximum<double>());
  return std::accumulate(longest.begin(), longest.end(), 0.0);
}

bool same_on_all_ranks(const boost::mpi::communicator& world, std::int64_t value) {
  return boost::mpi::all_reduce(world, value, boost::mpi::minimum<std::int64_t>()) ==
         boost::mpi::all_reduce(world, value, boost::mpi::maximum<std::int64_t>());
}

class MeasuredGroups : public testing::TestWithParam<Strategy> {
 protected:
  boost::mpi::communicator world_;
};

TEST_P(MeasuredGroups, follow_the_times_that_their_members_report) {
  DataService service(world_, measured_groups(world_.size(), GetParam()));
  const Step first = service.step(share_of(world_, 0));
  EXPECT_EQ(first.record->cost, CostInUse{});
  report(service, first);
  report(service, service.step(share_of(world_, 1)));
  const Step step = service.step(share_of(world_, 0));
  const CostInUse& cost = step.record->cost;
  EXPECT_EQ(cost.model, (CostModel{16 * 200, 16}));
  ASSERT_TRUE(cost.communication);
  const auto& [inside_node, between_nodes] = *cost.communication;
  EXPECT_EQ(inside_node.kept, world_.size() < 2);
  EXPECT_EQ(between_nodes.kept, world_.size() < 4);
  if (world_.size() >= 2) {
    EXPECT_NEAR(inside_node.seconds, *machine.inside_node, 1e-9);
    EXPECT_EQ(inside_node.cost, 3200);
  }
  if (world_.size() >= 4) {
    EXPECT_NEAR(between_nodes.seconds, *machine.between_nodes, 1e-9);
    EXPECT_EQ(between_nodes.cost, 8000);
  }
  EXPECT_EQ(service.plan_settings().communication_cost(),
            (CommunicationCost{inside_node.cost, between_nodes.cost, 2, 500, *cost.overhead}));
  for (const std::int64_t number : {inside_node.cost, between_nodes.cost, *cost.overhead, cost.observations})
    EXPECT_TRUE(same_on_all_ranks(world_, number));
  const StepPlan plan = plan_step({step.record->table(), service.plan_settings(), step.index});
  EXPECT_EQ(step.record->plan, plan.ranks.at(static_cast<std::size_t>(service.mesh().here().dp)));
  const double before = end_of_step(world_, first, GetParam());
  const double after = end_of_step(world_, step, GetParam());
  if (world_.size() >= 4) {
    EXPECT_LT(after, before);
  }
}

TEST_P(MeasuredGroups, resumed_go_on_with_the_same_plans) {
  const Config config = measured_groups(world_.size(), GetParam());
  DataService service(world_, config);
  report(service, service.step(share_of(world_, 0)));
  (void)service.step(share_of(world_, 1));
  const ServiceState state = parse_state(to_text(service.state()), "a state");
  EXPECT_EQ(state.costs.at("").inside_node.has_value(), world_.size() >= 2);
  EXPECT_EQ(state.costs.at("").between_nodes.has_value(), world_.size() >= 4);
  DataService resumed(world_, config, state);
  EXPECT_EQ(resumed.plan_settings(), service.plan_settings());
  EXPECT_EQ(resumed.step(share_of(world_, 2)).record->plan, service.step(share_of(world_, 2)).record->plan);
}

TEST_P(MeasuredGroups, need_only_one_reporting_member_per_group) {
  DataService service(world_, measured_groups(world_.size(), GetParam()));
  for (std::int64_t t = 0; t < 4; ++t) {
    const Step step = service.step(share_of(world_, t));
    report(service, step, Reports::first_member);
  }
  const CostInUse cost = service.step(share_of(world_, 4)).record->cost;
  ASSERT_TRUE(cost.communication);
  EXPECT_EQ(cost.communication->inside_node.kept, world_.size() < 2);
  EXPECT_EQ(cost.communication->between_nodes.kept, world_.size() < 4);
  EXPECT_TRUE(same_on_all_ranks(world_, cost.communication->inside_node.cost));
}

TEST_P(MeasuredGroups, are_in_the_report) {
  DataService service(world_, measured_groups(world_.size(), GetParam()));
  report(service, service.step(share_of(world_, 0)));
  const Step step = service.step(share_of(world_, 1));
  RunReport run{.mesh = service.mesh().grid().sizes(), .seconds = 1};
  const auto figures = gather_figures(service.mesh(), service.plan_settings(), step);
  if (!figures) return;
  run.add(*figures);
  const std::string text = to_text(run);
  EXPECT_NE(text.find(world_.size() < 4 ? " s between nodes (kept)" : "5e-06 s between nodes"),
            std::string::npos)
      << text;
}

INSTANTIATE_TEST_SUITE_P(Flexible, MeasuredGroups, testing::Values(Strategy::hierarchical, Strategy::grid),
                         [](const auto& tested) {
                           return tested.param == Strategy::grid ? "waves" : "tree";
                         });

}  // namespace
}  // namespace evenkeel::measured_groups_test
