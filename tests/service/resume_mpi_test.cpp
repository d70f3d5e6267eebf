#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/communicator.hpp>

#include "evenkeel/base/error.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "service/equal_steps.hpp"
#include "service/step_record.hpp"
#include "support/error_message.hpp"
#include "support/service_ahead.hpp"

namespace evenkeel::resume_test {
namespace {

using test::expect_equal;
using testing::HasSubstr;

/// Returns a job with 50 shuffled samples in steps of 8, for three epochs, each of which ends with a step of
/// 2.
Config made_up_job(std::int64_t prefetch = 1) {
  Config config;
  config.source.kind = SourceKind::synthetic;
  config.source.samples = 50;
  config.batch = {.global_batch = 8, .epochs = 3, .shuffle = true, .seed = 7};
  config.micro_batch.max_tokens = 1 << 14;
  config.exchange.prefetch = prefetch;
  return config;
}

std::vector<Step> steps_of_a_run(const boost::mpi::communicator& world, const Config& config) {
  SampleStream stream(world, config);
  test::ServiceAhead steps(world, config, stream.num_steps(),
                           [&](std::int64_t step) { return stream.read(step); });
  std::vector<Step> all;
  while (auto step = steps.next()) all.push_back(std::move(*step));
  return all;
}

TEST(Resume, after_any_step_gives_the_remaining_steps) {
  const boost::mpi::communicator world;
  for (const std::int64_t prefetch : {0, 2}) {
    const Config config = made_up_job(prefetch);
    const std::vector<Step> whole = steps_of_a_run(world, config);
    ASSERT_EQ(whole.size(), 21U);
    // Resumes once per step: within an epoch, at its boundary, and after the last step.
    ServiceState state = state_of_new_job(config);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      SampleStream stream(world, config);
      test::ServiceAhead steps(
          world, config, stream.num_steps(), [&](std::int64_t step) { return stream.read(step); }, state);
      const std::optional<Step> step = steps.next();
      ASSERT_TRUE(step.has_value());
      EXPECT_EQ(step->index, static_cast<std::int64_t>(at));
      expect_equal(*step, whole[at]);
      state = parse_state(to_text(steps.state()), "a state");
      EXPECT_EQ(state.next_step, step->index + 1);
    }
    SampleStream stream(world, config);
    test::ServiceAhead steps(
        world, config, stream.num_steps(), [&](std::int64_t step) { return stream.read(step); }, state);
    EXPECT_FALSE(steps.next().has_value());
  }
}

TEST(Resume, on_another_mesh_keeps_the_samples_of_every_step) {
  const boost::mpi::communicator world;
  const Config config = made_up_job();
  const std::vector<Step> whole = steps_of_a_run(world, config);
  for (const int size : {1, 2, 3, 7}) {
    if (world.size() < size) continue;
    const boost::mpi::communicator some = world.split(world.rank() < size ? 0 : 1);
    if (world.rank() >= size) continue;
    Config other = config;
    if (size % 2 == 0) other.mesh.cp = 2;
    ServiceState state = state_of_new_job(config);
    state.next_step = 5;
    SampleStream stream(some, other);
    test::ServiceAhead steps(
        some, other, stream.num_steps(), [&](std::int64_t step) { return stream.read(step); }, state);
    for (std::size_t at = 5; at < whole.size(); ++at) {
      const std::optional<Step> step = steps.next();
      ASSERT_TRUE(step.has_value());
      const auto expected = whole[at].record->table().entries();
      const auto found = step->record->table().entries();
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].shape, expected[i].shape);
    }
  }
}

TEST(Resume, keeps_step_numbers_if_the_trainer_supplies_samples) {
  const boost::mpi::communicator world;
  Config config = made_up_job();
  config.mini_batches.count = 2;
  config.mini_batches.keep = false;  // mini-batches are drawn depending on the number of the step
  SampleStream stream(world, config);
  DataService whole(world, config);
  ServiceState state;
  for (std::int64_t step = 0; step < 5; ++step) {
    if (step == 3) state = whole.state();
    const Step made = whole.step(stream.read(step));
    if (step < 3) continue;
    DataService later(world, config, state);
    const Step again = later.step(stream.read(step));
    EXPECT_EQ(again.index, step);
    expect_equal(again, made);
    state = later.state();
  }
}

TEST(Resume, after_a_step_that_failed_counts_it) {
  const boost::mpi::communicator world;
  const Config config = made_up_job();
  SampleStream stream(world, config);
  test::ServiceAhead steps(world, config, 4, [&](std::int64_t step) {
    if (step == 1) throw InputError("step 1", "is malformed");
    return stream.read(step);
  });
  EXPECT_EQ(steps.next()->index, 0);
  EXPECT_THROW((void)steps.next(), InputError);
  EXPECT_EQ(steps.state().next_step, 2);
  EXPECT_EQ(steps.next()->index, 2);
}

TEST(Resume, restores_measured_costs) {
  const boost::mpi::communicator world;
  Config config = made_up_job();
  config.balance.measured = MeasuredCost{1, 1000};
  ServiceState state = state_of_new_job(config);
  state.next_step = 4;
  state.costs[""] = {1e-3, 3e-6, 1e-9, 640};
  const DataService service(world, config, state);
  EXPECT_EQ(service.plan_settings().balance.cost, (CostModel{3000, 1}));
  EXPECT_EQ(service.state(), [&] {
    ServiceState same = state;
    same.mesh = service.mesh().grid().sizes();
    return same;
  }());
}

TEST(Resume, with_another_configuration_is_refused_unless_accepted) {
  const boost::mpi::communicator world;
  const Config config = made_up_job();
  ServiceState state = DataService(world, config).state();
  Config other = config;
  other.micro_batch.max_tokens = 1 << 13;
  try {
    const DataService service(world, other, state);
    FAIL() << "it went on";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("micro_batch.max_tokens was 16384 and is now 8192"));
  }
  EXPECT_NO_THROW(DataService(world, other, state, ChangedJob::accepted));
}

TEST(Resume, with_other_costs_of_communication_is_refused_unless_accepted) {
  const boost::mpi::communicator world;
  const auto job = [](const std::string& costs) {
    return parse_config(
        "source: {kind: synthetic, samples: 50}\nbatch: {global_batch: 8}\nmesh: {cp: flexible}\n"
        "micro_batch: {max_tokens_per_rank: 16384}\nbalance: {meet: step, communication: {" +
            costs + "}}\n",
        "test");
  };
  const Config config = job("inside_node: 2, between_nodes: 9");
  const ServiceState state = DataService(world, config).state();
  EXPECT_NO_THROW(DataService(world, config, state));
  for (const std::string costs : {"inside_node: 3, between_nodes: 9", "inside_node: 2, between_nodes: 10"}) {
    const Config other = job(costs);
    EXPECT_THAT(testing_support::message_of([&] { DataService(world, other, state); }),
                HasSubstr("balance.communication was"))
        << costs;
    EXPECT_NO_THROW(DataService(world, other, state, ChangedJob::accepted));
  }
}

TEST(Resume, compares_sources_and_is_refused_without_the_stream_that_reads_them) {
  const boost::mpi::communicator world;
  const Config config = made_up_job();
  SampleStream stream(world, config);
  ServiceState state = state_of_new_job(config);
  stream.describe(state);
  state.next_step = 1;
  ServiceState changed = state;
  ++changed.sources[0].digest;
  const auto error_of = [](const auto& resume) -> std::string {
    try {
      resume();
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "it went on";
  };
  const auto make_ahead = [&](const ServiceState& from, ChangedJob accepts = ChangedJob::refused) {
    DataService service(world, config, from, accepts);
    const Steps steps = service.steps(stream);
  };
  const auto bring = [&](const ServiceState& from) {
    DataService service(world, config, from);
    service.require_same_sources(stream);
    EXPECT_EQ(service.step(stream.read(1)).index, 1);
  };
  EXPECT_EQ(error_of([&] { make_ahead(state); }), "it went on");
  EXPECT_EQ(error_of([&] { bring(state); }), "it went on");
  EXPECT_THAT(error_of([&] { make_ahead(changed); }), HasSubstr("synthetic has different content"));
  EXPECT_THAT(error_of([&] { bring(changed); }), HasSubstr("synthetic has different content"));
  EXPECT_EQ(error_of([&] { make_ahead(changed, ChangedJob::accepted); }), "it went on");
  DataService unchecked(world, config, state);
  const auto read = [&](std::int64_t step) { return stream.read(step); };
  EXPECT_THAT(error_of([&] { (void)unchecked.steps(read, 9); }),
              HasSubstr("which has not been checked against this job"));
  EXPECT_THAT(error_of([&] { (void)unchecked.step(stream.read(1)); }),
              HasSubstr("which has not been checked against this job"));
}

TEST(Resume, from_different_states_is_everybodys_error) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;  // there is no other rank to differ from
  const Config config = made_up_job();
  ServiceState state = DataService(world, config).state();
  state.costs[""] = {1e-3, 3e-6, 1e-9, 640};
  const auto error_with = [&](const auto& change) -> std::string {
    ServiceState mine = state;
    if (world.rank() == world.size() - 1) change(mine);
    try {
      const DataService service(world, config, mine);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "it went on";
  };
  EXPECT_THAT(error_with([](ServiceState& mine) { mine.next_step = 3; }),
              HasSubstr("is 0 on rank 0 and 3 on rank " + std::to_string(world.size() - 1)));
  EXPECT_THAT(error_with([](ServiceState& mine) { mine.costs[""].inside_node = 0; }), HasSubstr("checksum"));
  EXPECT_THAT(error_with([](ServiceState& mine) { mine.costs[""].between_nodes = 2e-6; }),
              HasSubstr("checksum"));
}

TEST(Resume, keeps_the_costs_measured_in_first_and_in_later_passes) {
  const boost::mpi::communicator world;
  Config config = made_up_job();
  config.balance.measured = MeasuredCost{1, 1000};
  config.profiles["update"] = config.profile({});
  ServiceState reached;
  {
    DataService service(world, config);
    SampleStream stream(world, config);
    Steps steps = service.steps(stream);
    const auto report = [&](const Step& step, double seconds_per_token) {
      for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
        const auto tokens = static_cast<double>(step.record->plan.micro_batches[m].tokens);
        service.report_time(step, m, 1e-3 + seconds_per_token * tokens + 1e-9 * tokens * tokens);
      }
    };
    for (int i = 0; i < 20; ++i) {
      std::optional<Step> step = steps.next();
      ASSERT_TRUE(step.has_value());
      report(*step, 1e-6);
      report(service.step(std::move(*step), "update"), 2e-6);
    }
    reached = service.state();
  }
  EXPECT_EQ(reached.next_step, 20);
  ASSERT_TRUE(reached.costs.contains(""));
  ASSERT_TRUE(reached.costs.contains("update"));
  EXPECT_GT(reached.costs.at("update").observations, 0);
  DataService resumed(world, config, reached);
  SampleStream stream(world, config);
  const Steps steps = resumed.steps(stream);
  EXPECT_EQ(resumed.state().costs, reached.costs);
}

TEST(Resume, has_one_position_in_either_kind_of_steps) {
  const boost::mpi::communicator world;
  const Config config = made_up_job();
  SampleStream stream(world, config);
  DataService service(world, config);
  {
    Steps steps = service.steps(stream);
    EXPECT_EQ(steps.next()->index, 0);
    EXPECT_THROW((void)service.steps(stream), InputError);
    EXPECT_THROW((void)service.step(RaggedBatch()), InputError);
  }
  EXPECT_EQ(service.state().next_step, 1);
  EXPECT_THROW((void)service.step(RaggedBatch()), InputError);
  const auto read = [&](std::int64_t step) { return stream.read(step); };
  EXPECT_THROW((void)service.steps(read, -1), InputError);
  EXPECT_EQ(service.state().next_step, 1) << "steps that cannot be created leave the position as it is";
  EXPECT_EQ(service.steps(stream).next()->index, 1);
  DataService bringing(world, config);
  (void)bringing.step(stream.read(0));
  EXPECT_THROW((void)bringing.steps(stream), InputError);
  EXPECT_EQ(bringing.state().next_step, 1);
}

}  // namespace
}  // namespace evenkeel::resume_test
