#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <cmath>
#include <functional>
#include <ranges>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/service/data_service.hpp"
#include "report/run_report.hpp"
#include "service/skewed_share.hpp"
#include "service/step_record.hpp"

namespace evenkeel::time_reports_test {
namespace {

RaggedBatch share_of(const boost::mpi::communicator& comm, std::int64_t step) {
  return test::skewed_share(comm, step, 96, 77);
}

/// Returns a job in which the last micro-batch of each rank gets the remainder, so overhead can be
/// determined.
Config measured_job() {
  Config config;
  config.micro_batch.max_tokens = 830;
  config.micro_batch.packing = BinPacking::first_fit_decreasing;
  config.balance.measured = MeasuredCost{};
  return config;
}

/// A machine on which attention dominates the work.
constexpr TimeModel machine{0.002, 2e-6, 1e-7};

double seconds_of(const PackedMicroBatch& micro_batch, const TimeModel& times) {
  CostObservation seen;
  for (const SampleShape& sample : micro_batch.samples) {
    seen.tokens += sample.length();
    seen.squares += static_cast<double>(sample.length() * sample.length());
  }
  return times(seen);
}

void report_all(const DataService& service, const Step& step, const TimeModel& times = machine) {
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
    service.report_time(step, m, seconds_of(step.micro_batches[m].tensors, times));
}

/// Returns the time of the slowest DP rank on the machine, divided by the mean.
double time_max_over_mean(const boost::mpi::communicator& world, const Step& step) {
  double mine = 0;
  for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors))
    mine += seconds_of(m, {0, machine.linear, machine.quadratic});
  const double most = boost::mpi::all_reduce(world, mine, boost::mpi::maximum<double>());
  return most * world.size() / boost::mpi::all_reduce(world, mine, std::plus<>());
}

bool same_on_all_ranks(const boost::mpi::communicator& world, std::int64_t value) {
  return boost::mpi::all_reduce(world, value, boost::mpi::minimum<std::int64_t>()) ==
         boost::mpi::all_reduce(world, value, boost::mpi::maximum<std::int64_t>());
}

/// Requires that the trainer's result for each sample reaches its owner unchanged.
void expect_round_trip(const DataService& service, const Step& step, const RaggedBatch& mine) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
    results.put(m, {"tokens", DType::int64, FieldKind::token, {}},
                step.micro_batches[m].tensors.find(input_ids_field)->bytes());
  const RaggedBatch back = service.collect(step, results);
  const auto sent = mine.at(input_ids_field).values<std::int64_t>();
  const auto received = back.at("tokens").values<std::int64_t>();
  EXPECT_TRUE(std::ranges::equal(received, sent));
}

/// Requires that the plan of this rank equals the plan that a single process makes from the same table and
/// settings.
void expect_planned_alike(const DataService& service, const Step& step) {
  const StepPlan plan = plan_step({step.record->table(), service.plan_settings(step.profile), step.index});
  EXPECT_EQ(step.record->plan, plan.ranks.at(static_cast<std::size_t>(service.mesh().here().dp)));
}

TEST(MeasuredCosts, follow_the_times_that_all_ranks_report) {
  const boost::mpi::communicator world;
  DataService service(world, measured_job());
  const Step first = service.step(share_of(world, 0));
  EXPECT_EQ(first.record->cost, CostInUse{});
  report_all(service, first);
  const RaggedBatch mine = share_of(world, 1);
  const Step second = service.step(mine);
  EXPECT_EQ(second.record->cost.model, (CostModel{20 * 16, 16}));
  EXPECT_NEAR(second.record->cost.times.value().overhead, machine.overhead, 1e-6);
  EXPECT_FALSE(second.record->cost.kept);
  EXPECT_TRUE(same_on_all_ranks(world, second.record->cost.observations));
  EXPECT_EQ(service.plan_settings().balance.cost, second.record->cost.model);
  const double after = time_max_over_mean(world, second);
  EXPECT_LT(after, 1.001);
  if (world.size() > 1) {
    EXPECT_GT(time_max_over_mean(world, first) - 1, 2 * (after - 1));
  }
  expect_planned_alike(service, second);
  expect_round_trip(service, second, mine);
}

TEST(MeasuredCosts, need_only_one_reporting_rank) {
  const boost::mpi::communicator world;
  DataService service(world, measured_job());
  for (std::int64_t t = 0; t < 4; ++t) {
    const Step step = service.step(share_of(world, t));
    if (world.rank() == world.size() - 1) report_all(service, step);
  }
  const Step step = service.step(share_of(world, 4));
  EXPECT_EQ(step.record->cost.model, (CostModel{20 * 16, 16}));
  EXPECT_TRUE(same_on_all_ranks(world, step.record->cost.observations));
}

TEST(MeasuredCosts, are_kept_and_reported_while_times_are_inconclusive) {
  const boost::mpi::communicator world;
  Config config = measured_job();
  config.balance.cost = CostModel::flops_7b();
  DataService service(world, config);
  const auto report_of = [&](const Step& step) {
    RunReport report{.mesh = {service.mesh().grid().sizes()}, .seconds = 1};
    const auto figures = gather_figures(service.mesh(), service.plan_settings(), step);
    if (figures) report.add(*figures);
    return to_text(report);
  };
  const auto says = [&](const std::string& report, const std::string& text) {
    return world.rank() != 0 || report.find(text) != std::string::npos;
  };
  const Step unreported = service.step(share_of(world, 0));
  EXPECT_TRUE(says(report_of(unreported), "as configured, no times reported"));
  if (world.rank() == 0) service.report_time(unreported, 0, 0.5);
  const Step kept = service.step(share_of(world, 1));
  EXPECT_EQ(kept.record->cost, (CostInUse{CostModel::flops_7b(), std::nullopt, 1, true}));
  EXPECT_TRUE(says(report_of(kept), "as configured, kept, since a fit to 1 time did not give a usable cost"));
  report_all(service, kept);
  const Step fitted = service.step(share_of(world, 2));
  EXPECT_TRUE(says(report_of(fitted), "s per token + 1e-07 s per length^2, from"));
}

TEST(MeasuredCosts, are_fitted_at_the_configured_interval) {
  const boost::mpi::communicator world;
  Config config = measured_job();
  config.balance.measured->every = 2;
  DataService service(world, config);
  for (std::int64_t t = 0; t < 4; ++t) {
    const Step step = service.step(share_of(world, t));
    EXPECT_EQ(step.record->cost.times.has_value(), t >= 2) << t;
    report_all(service, step);
  }
}

TEST(MeasuredCosts, forget_all_but_the_latest_times) {
  const boost::mpi::communicator world;
  Config config = measured_job();
  config.balance.measured->window = 16;
  DataService service(world, config);
  for (std::int64_t t = 0; t < 3; ++t) {
    const Step step = service.step(share_of(world, t));
    EXPECT_LE(step.record->cost.observations, 16);
    for (int again = 0; again < 3; ++again) report_all(service, step);
  }
}

TEST(MeasuredCosts, are_separate_for_each_profile) {
  const boost::mpi::communicator world;
  Config config = measured_job();
  config.profiles["log_prob"] = config.profile({});
  config.profiles["update"] = config.profile({});
  config.profiles["plain"] = config.profile({});
  config.profiles["plain"].balance.measured = std::nullopt;
  DataService service(world, config);
  constexpr TimeModel other{0.002, 4e-5, 1e-7};
  for (std::int64_t t = 0; t < 3; ++t) {
    Step step = service.step(share_of(world, t), "log_prob");
    EXPECT_EQ(step.record->cost.model, t == 0 ? CostModel::tokens() : (CostModel{20 * 16, 16}));
    report_all(service, step, machine);
    step = service.step(std::move(step), "plain");
    EXPECT_EQ(step.record->cost, CostInUse{});
    report_all(service, step, machine);
    step = service.step(std::move(step), "update");
    EXPECT_EQ(step.record->cost.model, t == 0 ? CostModel::tokens() : (CostModel{400 * 16, 16}));
    report_all(service, step, other);
  }
}

TEST(MeasuredCosts, survive_a_step_that_fails_on_one_rank) {
  const boost::mpi::communicator world;
  DataService service(world, measured_job());
  report_all(service, service.step(share_of(world, 0)));
  EXPECT_THROW((void)service.step([&]() -> RaggedBatch {
    if (world.rank() == world.size() - 1) throw InputError("rollouts.jsonl:5", "malformed");
    return share_of(world, 1);
  }),
               InputError);
  EXPECT_EQ(service.step(share_of(world, 1)).record->cost.model, (CostModel{20 * 16, 16}));
}

TEST(ReportTime, refuses_what_cannot_be_a_time) {
  const boost::mpi::communicator world;
  const DataService unmeasured(world, Config{});
  DataService service(world, measured_job());
  const Step step = service.step(share_of(world, 0));
  for (const DataService* each : {&unmeasured, static_cast<const DataService*>(&service)}) {
    EXPECT_NO_THROW(each->report_time(step, 0, 1e-9));
    EXPECT_THROW(each->report_time(step, step.micro_batches.size(), 1), InputError);
    for (const double seconds : {0.0, -1.0, std::nan(""), HUGE_VAL})
      EXPECT_THROW(each->report_time(step, 0, seconds), InputError);
  }
}

TEST(Speeds, give_a_rank_of_twice_the_speed_twice_the_work) {
  const boost::mpi::communicator world;
  Config config;
  config.micro_batch.max_tokens = 800;
  config.balance.speeds.assign(static_cast<std::size_t>(world.size()), 500);
  config.balance.speeds.front() = 1000;
  DataService service(world, config);
  const RaggedBatch mine = share_of(world, 0);
  const Step step = service.step(mine);
  std::vector<Cost> costs;
  boost::mpi::all_gather(world, step.record->plan.cost(), costs);
  EXPECT_LT(max_over_mean(costs, config.balance.speeds), 1.001);
  for (std::size_t r = 1; r < costs.size(); ++r)
    EXPECT_NEAR(2.0 * static_cast<double>(costs[r]), static_cast<double>(costs[0]), 8);
  expect_planned_alike(service, step);
  expect_round_trip(service, step, mine);
  const auto figures = gather_figures(service.mesh(), service.plan_settings(), step);
  if (figures) {
    EXPECT_LT(figures->balance.dp_max_over_mean, 1.001);
  }
}

TEST(Speeds, must_be_one_per_dp_rank_on_every_rank) {
  const boost::mpi::communicator world;
  Config config;
  config.balance.speeds.assign(static_cast<std::size_t>(world.size() + 1), 1000);
  EXPECT_THROW(DataService(world, config), ConfigError);
}

TEST(Speeds, and_measured_costs_go_together) {
  const boost::mpi::communicator world;
  Config config = measured_job();
  config.balance.speeds.assign(static_cast<std::size_t>(world.size()), 1000);
  config.balance.speeds.back() = 250;
  DataService service(world, config);
  const Step first = service.step(share_of(world, 0));
  const double slower = world.rank() == world.size() - 1 ? 4 : 1;
  report_all(service, first,
             {machine.overhead * slower, machine.linear * slower, machine.quadratic * slower});
  const Step second = service.step(share_of(world, 1));
  EXPECT_EQ(second.record->cost.model, (CostModel{20 * 16, 16}));
  std::vector<Cost> costs;
  boost::mpi::all_gather(world, second.record->plan.cost(), costs);
  EXPECT_LT(max_over_mean(costs, config.balance.speeds), 1.01);
}

TEST(Packing, by_name_and_count_by_time_are_equal_on_all_ranks) {
  const boost::mpi::communicator world;
  std::vector<MicroBatchKeys> ways(4);
  ways[0].packing = BinPacking::first_fit_decreasing;
  ways[1].packing = BinPacking::best_fit_decreasing;
  ways[2].packing = BinPacking::modified_first_fit_decreasing;
  ways[3].count = CountRule::fastest;
  for (MicroBatchKeys& way : ways) {
    Config config = measured_job();
    way.max_tokens = 1500;
    config.micro_batch = way;
    config.mini_batches.count = 2;
    DataService service(world, config);
    for (std::int64_t t = 0; t < 2; ++t) {
      const RaggedBatch mine = share_of(world, t);
      const Step step = service.step(mine);
      EXPECT_TRUE(same_on_all_ranks(world, std::ssize(step.micro_batches)));
      for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors))
        EXPECT_LE(m.layout.num_rows(), 1500);
      expect_planned_alike(service, step);
      expect_round_trip(service, step, mine);
      report_all(service, step);
    }
  }
}

}  // namespace
}  // namespace evenkeel::time_reports_test
