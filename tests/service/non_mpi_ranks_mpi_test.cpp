#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "service/equal_steps.hpp"
#include "service/steps_in_all_modes.hpp"
#include "support/non_mpi_ranks.hpp"
#include "support/service_ahead.hpp"

// Ranks that communicate without MPI get exactly the steps that they would get with MPI.

namespace evenkeel::non_mpi_ranks_test {
namespace {

using test::configs_for;
using test::expect_equal;
using test::results_of;
using test::share_of;
using testing::HasSubstr;
using testing_support::RanksBehindMpi;

Communicator foreign_world(bool threads = true) {
  return Communicator(std::make_shared<RanksBehindMpi>(boost::mpi::communicator(), threads));
}

/// Makes the same steps with and without MPI, over all ranks.
class ForeignSteps : public testing::Test {
 protected:
  [[nodiscard]] RaggedBatch read(std::int64_t step) const { return share_of(step, mpi_.rank(), mpi_.size()); }

  Communicator mpi_ = boost::mpi::communicator();
  Communicator foreign_ = foreign_world();
};

void expect_equal_results(const RaggedBatch& one, const RaggedBatch& other) {
  ASSERT_TRUE(std::ranges::equal(one.samples(), other.samples()));
  ASSERT_EQ(one.fields().size(), other.fields().size());
  for (const Column& column : other.fields()) EXPECT_EQ(one.at(column.spec().name), column);
}

TEST_F(ForeignSteps, equal_those_of_mpi_in_every_mode_and_path) {
  for (Config config : configs_for(mpi_.size())) {
    DataService expected(mpi_, config);
    for (const ExchangePath path :
         {ExchangePath::automatic, ExchangePath::shared_memory, ExchangePath::point_to_point}) {
      config.exchange.path = path;
      DataService service(foreign_, config);
      for (std::int64_t step = 0; step < 2; ++step) {
        const Step made = service.step(read(step));
        const Step same = expected.step(read(step));
        expect_equal(made, same);
        EXPECT_EQ(made.num_tokens, same.num_tokens);
        expect_equal_results(service.collect(made, results_of(made)),
                             expected.collect(same, results_of(same)));
      }
    }
  }
}

TEST_F(ForeignSteps, work_with_alltoallv) {
  Config config = configs_for(mpi_.size()).front();
  DataService expected(mpi_, config);
  config.exchange.path = ExchangePath::alltoallv;
  DataService service(foreign_, config);
  expect_equal(service.step(read(0)), expected.step(read(0)));
}

TEST_F(ForeignSteps, support_later_passes_and_collection_on_one_rank) {
  Config config = configs_for(mpi_.size()).front();
  config.profiles["log_prob"].micro_batch.max_tokens = 800;
  config.profiles["update"].micro_batch.min_count = 3;
  config.profiles["aligned"].pack.align_lcm = 16;
  DataService service(foreign_, config);
  DataService expected(mpi_, config);
  for (const char* profile : {"update", "aligned"}) {
    Step step = service.step(read(0), "log_prob");
    Step same = expected.step(read(0), "log_prob");
    expect_equal(step, same);
    const RaggedBatch back = service.collect(step, results_of(step));
    const RaggedBatch wanted = expected.collect(same, results_of(same));
    step = service.step(std::move(step), profile, back);
    same = expected.step(std::move(same), profile, wanted);
    expect_equal(step, same);
    const int root = mpi_.size() - 1;
    expect_equal_results(service.collect_on(step, results_of(step), root),
                         expected.collect_on(same, results_of(same), root));
  }
}

TEST_F(ForeignSteps, are_made_ahead_in_a_thread_if_ranks_allow_it) {
  Config config = configs_for(mpi_.size()).front();
  config.exchange.prefetch = 2;
  const auto reader = [&](std::int64_t step) { return read(step); };
  for (const bool threads : {false, mpi_.allows_threads()}) {
    DataService expected(mpi_, config);
    test::ServiceAhead steps(foreign_world(threads), config, 4, reader);
    EXPECT_EQ(steps.in_background(), threads);
    for (std::int64_t step = 0; step < 4; ++step) expect_equal(*steps.next(), expected.step(read(step)));
    EXPECT_FALSE(steps.next().has_value());
  }
}

TEST_F(ForeignSteps, support_streams_and_resuming) {
  const Config config = parse_config(
      "source: {kind: synthetic, samples: 300, seed: 5}\n"
      "batch: {global_batch: 40, shuffle: true, epochs: 2}\n"
      "micro_batch: {max_tokens: 8192}\n",
      "test");
  SampleStream foreign(foreign_, config);
  SampleStream stream(mpi_, config);
  EXPECT_EQ(foreign.num_steps(), stream.num_steps());
  DataService expected(mpi_, config);
  ServiceState reached;
  {
    DataService service(foreign_, config);
    for (std::int64_t step = 0; step < 2; ++step)
      expect_equal(service.step(foreign.read(step)), expected.step(stream.read(step)));
    reached = service.state();
    foreign.describe(reached);
  }
  ServiceState same = expected.state();
  stream.describe(same);
  EXPECT_EQ(to_text(reached), to_text(same));
  DataService service(foreign_, config, reached);
  service.require_same_sources(foreign);
  const Step next = service.step(foreign.read(2));
  EXPECT_EQ(next.index, 2);
  expect_equal(next, expected.step(stream.read(2)));
}

TEST_F(ForeignSteps, fail_on_all_ranks_if_one_fails_and_can_continue) {
  const Config config = configs_for(mpi_.size()).front();
  DataService service(foreign_, config);
  DataService expected(mpi_, config);
  const auto fail = [&]() -> RaggedBatch {
    if (mpi_.rank() == mpi_.size() - 1) throw InputError("here", "is the last rank's error");
    return read(0);
  };
  try {
    static_cast<void>(service.step(fail));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is the last rank's error"));
    EXPECT_EQ(error.report().rank, mpi_.size() - 1);
  }
  expect_equal(service.step(read(0)), expected.step(read(0)));
}

TEST_F(ForeignSteps, have_no_leaders) {
  Config config = configs_for(mpi_.size()).front();
  config.exchange.aggregate = NodeAggregation::always;
  try {
    const DataService service(foreign_, config);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("exchange.aggregate: is always"));
  }
}

TEST_F(ForeignSteps, have_meshes_with_foreign_lines) {
  Config config;
  if (mpi_.size() % 2 == 0) config.mesh.cp = 2;
  const DataService service(foreign_, config);
  const Mesh& mesh = service.mesh();
  EXPECT_NE(mesh.world().non_mpi_ranks(), nullptr);
  EXPECT_EQ(mesh.along(Axis::cp).size(), config.mesh.cp);
  EXPECT_NE(mesh.along(Axis::dp).non_mpi_ranks(), nullptr);
  EXPECT_EQ(mesh.rank().value(), mpi_.rank());
}

}  // namespace
}  // namespace evenkeel::non_mpi_ranks_test
