#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/intercommunicator.hpp>
#include <functional>
#include <optional>
#include <set>

#include "evenkeel/service/data_service.hpp"
#include "exchange/result_exchange.hpp"
#include "service/equal_steps.hpp"
#include "service/step_record.hpp"
#include "support/made_up_batch.hpp"
#include "support/service_ahead.hpp"

// Steps, communicators and calls of one rank do not match those of other ranks. Every rank must get an error,
// no rank may wait, and the service must remain usable.

namespace evenkeel::wrong_steps_test {
namespace {

using test::expect_equal;
using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::made_up_shape;

constexpr std::int64_t num_samples = 23;

std::set<int> first_middle_last(const boost::mpi::communicator& world) {
  return {0, world.size() / 2, world.size() - 1};
}

RaggedBatch share_of(const boost::mpi::communicator& comm, std::int64_t first = 0) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = first; id < first + num_samples; ++id) {
    if (id * id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), testing_support::made_up_fields());
}

std::vector<Config> configs_for_all_paths() {
  std::vector<Config> configs;
  for (const ExchangePath path :
       {ExchangePath::point_to_point, ExchangePath::alltoallv, ExchangePath::shared_memory}) {
    Config& config = configs.emplace_back();
    config.exchange.path = path;
    config.micro_batch.max_tokens = 150;
    config.profiles["log_prob"] = config.profile({});
    config.profiles["update"] = config.profile({});
    config.profiles["update"].micro_batch.max_tokens = 100;
  }
  return configs;
}

/// Returns copies of the tokens, one per micro-batch.
std::vector<std::vector<std::byte>> bytes_of_tokens(const Step& step) {
  std::vector<std::vector<std::byte>> all;
  for (const MicroBatch& m : step.micro_batches) {
    const auto bytes = std::as_bytes(m.tensors.find(input_ids_field)->values<std::int64_t>());
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

StepResults positions_of(const Step& step) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    results.put(m, "positions", FieldKind::token,
                step.micro_batches[m].tensors.find(position_ids_field)->values<std::int64_t>());
  }
  return results;
}

void expect_collected(const DataService& service, const Step& step, const RaggedBatch& mine) {
  const RaggedBatch back = service.collect(step, positions_of(step));
  EXPECT_TRUE(std::ranges::equal(back.samples(), mine.samples()));
  EXPECT_EQ(back.at("positions").rows(), mine.num_tokens());
}

/// Requires that `work` throws an InputError that contains all of these texts.
void expect_input_error(const std::function<void()>& work, const std::vector<std::string>& texts) {
  try {
    work();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    for (const std::string& text : texts) EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

TEST(WrongSteps, different_destinations_of_a_collection_are_reported_and_recoverable) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  for (const Config& config : configs_for_all_paths()) {
    DataService service(world, config);
    const RaggedBatch mine = share_of(world);
    const Step step = service.step(mine, "log_prob");
    const StepResults results = positions_of(step);
    for (const int odd : first_middle_last(world)) {
      expect_input_error(
          [&] { (void)service.collect_on(step, results, world.rank() == odd ? 1 : 0); },
          {"make different calls", "collects step 0 (profile 'log_prob') on rank 0", "on rank 1"});
      expect_input_error(
          [&] {
            if (world.rank() == odd) {
              (void)service.collect(step, results);
            } else {
              (void)service.collect_on(step, results, 0);
            }
          },
          {"make different calls", "collects step 0 (profile 'log_prob') on rank 0"});
      expect_collected(service, step, mine);
    }
  }
}

TEST(WrongSteps, collecting_different_steps_is_reported_and_recoverable) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  for (const Config& config : configs_for_all_paths()) {
    DataService service(world, config);
    const RaggedBatch mine = share_of(world);
    const RaggedBatch others = share_of(world, 1000);
    const Step first = service.step(mine, "log_prob");
    const Step second = service.step(others, "update");
    for (const int odd : first_middle_last(world)) {
      const Step& meant = world.rank() == odd ? second : first;
      expect_input_error([&] { (void)service.collect(meant, positions_of(meant)); },
                         {"rank " + std::to_string(odd) + " collects step 1 (profile 'update')",
                          "collects step 0 (profile 'log_prob')"});
      expect_collected(service, second, others);
      expect_collected(service, first, mine);
    }
    expect_equal(service.step(first, "update"), DataService(world, config).step(mine, "update"));
  }
}

TEST(WrongSteps, passes_of_one_step_are_distinguished) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;
  for (const Config& config : configs_for_all_paths()) {
    DataService service(world, config);
    const RaggedBatch mine = share_of(world);
    const Step log_prob = service.step(mine, "log_prob");
    const Step update = service.step(log_prob, "update");
    const Step& meant = world.rank() == 0 ? log_prob : update;
    expect_input_error(
        [&] { (void)service.collect(meant, positions_of(meant)); },
        {"rank 0 collects step 0 (profile 'log_prob')", "rank 1 collects step 0 (profile 'update')"});
    expect_collected(service, update, mine);
  }
}

TEST(WrongSteps, steps_of_two_services_are_distinguished_and_either_may_collect_them) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for_all_paths()) {
    DataService one(world, config);
    DataService other(world, config);
    const RaggedBatch mine = share_of(world);
    const Step of_one = one.step(mine);
    const Step of_other = other.step(mine);
    if (world.size() > 1) {
      const Step& meant = world.rank() == 0 ? of_one : of_other;
      expect_input_error([&] { (void)one.collect(meant, positions_of(meant)); },
                         {"rank 1 collects step 0, a different call with the same name"});
    }
    expect_collected(one, of_other, mine);
    expect_collected(other, of_one, mine);
  }
}

TEST(WrongSteps, a_step_remains_usable_after_its_service_is_destroyed) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for_all_paths()) {
    const RaggedBatch mine = share_of(world);
    std::optional<DataService> gone(std::in_place, world, config);
    Step step = gone->step(mine, "log_prob");
    const std::vector<std::vector<std::byte>> before = bytes_of_tokens(step);
    gone.reset();
    DataService other(world, config);
    EXPECT_EQ(bytes_of_tokens(step), before);
    expect_collected(other, step, mine);
    const Step update = other.step(std::move(step), "update");
    expect_collected(other, update, mine);
  }
}

TEST(WrongSteps, a_step_of_a_service_with_another_configuration_is_refused) {
  const boost::mpi::communicator world;
  Config config;
  DataService service(world, config);
  config.pack.align_lcm = 32;
  DataService other(world, config);
  const RaggedBatch mine = share_of(world);
  const Step step = other.step(mine);
  expect_input_error([&] { (void)service.collect(step, positions_of(step)); },
                     {"step 0", "a different mesh or configuration"});
  expect_collected(other, step, mine);
}

TEST(WrongSteps, a_step_may_be_collected_twice_and_out_of_turn) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for_all_paths()) {
    DataService service(world, config);
    const RaggedBatch mine = share_of(world);
    const Step first = service.step(mine);
    const Step second = service.step(share_of(world, 1000));
    expect_collected(service, second, share_of(world, 1000));
    expect_collected(service, first, mine);
    expect_collected(service, first, mine);
  }
}

TEST(WrongSteps, missing_results_and_different_steps_are_one_error_for_all) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for_all_paths()) {
    DataService service(world, config);
    const RaggedBatch mine = share_of(world);
    const Step first = service.step(mine);
    const Step second = service.step(mine);
    const int odd = world.size() - 1;
    const Step& meant = world.rank() == odd ? second : first;
    const StepResults results = world.rank() == odd ? StepResults(0) : positions_of(meant);
    expect_input_error([&] { (void)service.collect(meant, results); }, {"rank " + std::to_string(odd)});
    expect_collected(service, first, mine);
  }
}

TEST(WrongSteps, a_step_that_one_rank_has_moved_from_is_everybodys_error) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for_all_paths()) {
    DataService service(world, config);
    const RaggedBatch mine = share_of(world);
    for (const int bad : first_middle_last(world)) {
      Step step = service.step(mine, "log_prob");
      const StepResults results = positions_of(step);
      Step gone = step;
      const Step kept = std::move(gone);
      const Step& meant = world.rank() == bad ? gone : step;
      const std::string rank = "rank " + std::to_string(bad);
      expect_input_error([&] { (void)service.collect(meant, results); }, {"is empty", rank});
      expect_input_error([&] { (void)service.step(meant, "update"); }, {"is empty", rank});
      expect_input_error([&] { service.report_time(gone, 0, 1); }, {"is empty"});
      EXPECT_NO_THROW(service.report_time(step, 0, 1));
      expect_collected(service, kept, mine);
    }
  }
}

TEST(WrongSteps, passes_over_different_steps_or_under_different_profiles_are_everybodys_error) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;
  for (const Config& config : configs_for_all_paths()) {
    DataService service(world, config);
    const RaggedBatch mine = share_of(world);
    const Step first = service.step(mine, "log_prob");
    const Step second = service.step(mine, "log_prob");
    for (const int odd : first_middle_last(world)) {
      const bool is_odd = world.rank() == odd;
      expect_input_error([&] { (void)service.step(is_odd ? second : first, "update"); },
                         {"passes over step 0 (profile 'log_prob') under profile 'update'",
                          "rank " + std::to_string(odd) + " passes over step 1"});
      expect_input_error([&] { (void)service.step(first, is_odd ? "log_prob" : "update"); },
                         {"rank " + std::to_string(odd) +
                          " passes over step 0 (profile 'log_prob') under profile 'log_prob'"});
      expect_input_error(
          [&] {
            if (is_odd) {
              (void)service.collect(first, positions_of(first));
            } else {
              (void)service.step(first, "update");
            }
          },
          {"rank " + std::to_string(odd) + " collects step 0"});
    }
    expect_equal(service.step(first, "update"), DataService(world, config).step(mine, "update"));
  }
}

TEST(WrongSteps, different_profiles_or_numbers_of_steps_are_reported_on_all_ranks) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;
  for (Config config : configs_for_all_paths()) {
    config.profiles["update"].balance.measured = MeasuredCost{};
    DataService service(world, config);
    const RaggedBatch mine = share_of(world);
    const Step step = service.step(mine, "log_prob");
    for (const int odd : first_middle_last(world)) {
      const bool is_odd = world.rank() == odd;
      const std::string rank = "rank " + std::to_string(odd);
      expect_input_error([&] { (void)service.step(mine, is_odd ? "update" : "log_prob"); },
                         {rank + " makes step 1 under profile 'update'", "under profile 'log_prob'"});
      expect_input_error(
          [&] {
            if (is_odd) {
              (void)service.collect(step, positions_of(step));
            } else {
              (void)service.step(mine, "update");
            }
          },
          {rank + " collects step 0", "makes step 1"});
    }
    expect_equal(service.step(mine, "log_prob"), step);
  }
}

TEST(WrongSteps, removing_micro_batches_from_a_step_on_one_rank_is_everybodys_error) {
  const boost::mpi::communicator world;
  DataService service(world, configs_for_all_paths().front());
  const RaggedBatch mine = share_of(world);
  for (const int bad : first_middle_last(world)) {
    Step step = service.step(mine, "log_prob");
    const Step whole = step;
    if (world.rank() == bad) step.micro_batches.clear();
    expect_input_error([&] { (void)service.step(std::move(step), "update"); },
                       {"micro-batches", "rank " + std::to_string(bad)});
    (void)service.step(whole, "update");
  }
}

TEST(WrongCommunicators, an_intercommunicator_is_refused_on_all_ranks) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // needs two groups
  const int group = world.rank() % 2;
  const boost::mpi::communicator half = world.split(group);
  const boost::mpi::intercommunicator between(half, 0, world, 1 - group);
  EXPECT_THROW(DataService(between, Config{}), MeshError);
  EXPECT_THROW(test::ServiceAhead(between, Config{}, 1, [](std::int64_t) { return RaggedBatch(); }),
               MeshError);
  EXPECT_THROW(Mesh(between, Grid({1, 1, half.size(), 1}, {})), MeshError);
  EXPECT_THROW((void)duplicate(between), MeshError);
  EXPECT_THROW((void)gather_samples(between, share_of(half), 0, {}), MeshError);
  DataService service(world, Config{});
  expect_collected(service, service.step(share_of(world)), share_of(world));
}

TEST(WrongCommunicators, a_null_communicator_is_refused) {
  const boost::mpi::communicator world;
  const boost::mpi::communicator none(MPI_COMM_NULL, boost::mpi::comm_attach);
  EXPECT_THROW(DataService(none, Config{}), MeshError);
  EXPECT_THROW(test::ServiceAhead(none, Config{}, 1, [](std::int64_t) { return RaggedBatch(); }), MeshError);
  EXPECT_THROW(Mesh(none, Grid()), MeshError);
}

TEST(WrongNumbers, a_negative_number_of_steps_is_refused_on_all_ranks) {
  const boost::mpi::communicator world;
  for (const std::int64_t depth : {0, 1}) {
    Config config;
    config.exchange.prefetch = depth;
    const auto make = [&](std::int64_t steps) {
      return std::make_unique<test::ServiceAhead>(world, config, steps,
                                                  [&](std::int64_t) { return share_of(world); });
    };
    expect_input_error([&] { (void)make(-5); }, {"-5"});
    EXPECT_FALSE(make(0)->next().has_value());
    EXPECT_TRUE(make(1)->next().has_value());
  }
  Config config;
  config.exchange.prefetch = -1;
  EXPECT_THROW(test::ServiceAhead(world, config, 1, [&](std::int64_t) { return share_of(world); }),
               ConfigError);
}

TEST(WrongNumbers, extreme_times_give_usable_costs) {
  const boost::mpi::communicator world;
  constexpr double least = std::numeric_limits<double>::denorm_min();
  constexpr double most = std::numeric_limits<double>::max();
  for (const auto& [one, other] :
       {std::pair{most, most}, {least, least}, {least, most}, {1e308, 1e307}, {1.0, 1e308}}) {
    Config config;
    config.micro_batch.max_tokens = 60;
    config.micro_batch.count = CountRule::fastest;
    config.balance.measured = MeasuredCost{};
    config.balance.measured->every = 1;
    DataService service(world, config);
    for (int t = 0; t < 4; ++t) {
      const Step step = service.step(share_of(world, 100 * t));
      EXPECT_GE(step.record->cost.model.linear, 0);
      EXPECT_GE(step.record->cost.model.quadratic, 0);
      EXPECT_GT(step.record->cost.model.linear + step.record->cost.model.quadratic, 0);
      for (const MicroBatchPlan& m : step.record->plan.micro_batches) EXPECT_GE(m.cost, 0);
      for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
        service.report_time(step, m, (m + static_cast<std::size_t>(t)) % 2 == 0 ? one : other);
    }
  }
}

}  // namespace
}  // namespace evenkeel::wrong_steps_test
