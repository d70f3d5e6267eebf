#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <optional>
#include <string>

#include "evenkeel/service/data_service.hpp"
#include "exchange/result_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "service/equal_steps.hpp"
#include "service/faults/shared_faults.hpp"
#include "support/made_up_batch.hpp"
#include "support/non_mpi_ranks.hpp"
#include "support/service_ahead.hpp"

// One rank runs out of memory for columns, in each collective operation that creates some: see
// shared_faults.hpp.

namespace evenkeel {
namespace {

using test::expect_equal;
using test::expect_faults_to_be_shared;
using test::first_middle_last;
using test::patience;
using test::Watchdog;
using testing::HasSubstr;
using testing_support::FailingColumns;
using testing_support::made_up_batch;
using testing_support::made_up_shape;
using testing_support::RanksBehindMpi;

RaggedBatch share_of(const boost::mpi::communicator& comm, std::int64_t samples = 26) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < samples; ++id) {
    if (id * id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), testing_support::made_up_fields());
}

/// Returns samples that share prompts, in some cases across ranks.
RaggedBatch siblings_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = comm.rank(); id < 24; id += comm.size())
    shapes.push_back({SampleId{id}, static_cast<std::uint64_t>(id / 4), 5, 1 + id % 7});
  RaggedBatch batch = made_up_batch(std::move(shapes), {});
  const std::span<std::int64_t> tokens = batch.find(input_ids_field)->values<std::int64_t>();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const std::int64_t begin = batch.rows_of(FieldKind::token, i).begin;
    for (std::int64_t t = 0; t < 5; ++t)
      tokens[static_cast<std::size_t>(begin + t)] =
          static_cast<std::int64_t>(batch.samples()[static_cast<std::size_t>(i)].group) * 10 + t;
  }
  return batch;
}

/// Returns a copy made by the trainer, whose own memory is not tested.
Step copied(const Step& step) {
  const FailingColumns::Paused paused;
  return step;
}

struct Case {
  std::string name;
  Config config;
};

/// One configuration for each way that data and plans can take.
std::vector<Case> cases_for(int ranks) {
  Config plain;
  plain.micro_batch.max_tokens = 200;
  plain.profiles["again"] = plain.profile({});
  plain.profiles["again"].micro_batch.max_tokens = 120;
  plain.profiles["elsewhere"] = plain.profile({});
  plain.profiles["elsewhere"].pack.align_lcm = 16;
  std::vector<Case> cases;
  for (const auto& [name, path] : {std::pair{"point_to_point", ExchangePath::point_to_point},
                                   {"alltoallv", ExchangePath::alltoallv},
                                   {"shared_memory", ExchangePath::shared_memory}}) {
    cases.push_back({name, plain});
    cases.back().config.exchange.path = path;
    if (ranks % 2 != 0) continue;
    cases.push_back({std::string(name) + "_tp2", cases.back().config});
    cases.back().config.mesh.tp = 2;
  }
  if (ranks % 2 == 0) {
    cases.push_back({"tensors_in_common", plain});
    cases.back().config.mesh.tp = 2;
    cases.back().config.exchange.tp_copies = TensorParallelCopies::shared;
    cases.push_back({"cp2_fastest", plain});
    cases.back().config.mesh.cp = 2;
    cases.back().config.micro_batch.count = CountRule::fastest;
  }
  return cases;
}

std::vector<Case> sharing_cases() {
  std::vector<Case> cases;
  for (const auto& [name, sharing] :
       {std::pair{"prompts", PrefixSharing::prompts}, {"trees", PrefixSharing::trees}}) {
    Case& added = cases.emplace_back();
    added.name = name;
    added.config.micro_batch.max_tokens = 96;
    added.config.prefix = sharing;
  }
  return cases;
}

StepResults results_of(const Step& step) {
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const Column* tokens = step.micro_batches[m].tensors.find(position_ids_field);
    results.put(m, "log_probs", FieldKind::token, tokens->values<std::int64_t>());
  }
  return results;
}

void expect_faults_in_steps_to_be_shared(const boost::mpi::communicator& world, std::span<const Case> cases,
                                         const RaggedBatch& mine) {
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    DataService service(world, each.config);
    const Step expected = service.step(mine);
    expect_faults_to_be_shared(
        world, [&] { (void)service.step([&] { return mine; }); },
        [&] { expect_equal(service.step(mine), expected); });
  }
}

TEST(Faults, lack_of_memory_in_a_step_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  expect_faults_in_steps_to_be_shared(world, cases_for(world.size()), mine);
}

TEST(Faults, lack_of_memory_in_a_step_without_mpi_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  for (const Case& each : cases_for(world.size())) {
    SCOPED_TRACE(each.name);
    DataService service(Communicator(std::make_shared<RanksBehindMpi>(world)), each.config);
    const Step expected = service.step(mine);
    const StepResults results = results_of(expected);
    const auto still_works = [&] { expect_equal(service.step(mine), expected); };
    expect_faults_to_be_shared(
        world, [&] { (void)service.step([&] { return mine; }); }, still_works);
    expect_faults_to_be_shared(
        world, [&] { (void)service.collect(expected, results); }, still_works);
  }
}

TEST(Faults, lack_of_memory_with_shared_prefixes_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = siblings_of(world);
  for (const Case& each : sharing_cases()) {
    SCOPED_TRACE(each.name);
    DataService service(world, each.config);
    const Step expected = service.step(mine);
    expect_faults_to_be_shared(
        world, [&] { (void)service.step([&] { return mine; }); },
        [&] { expect_equal(service.step(mine), expected); });
  }
}

TEST(Faults, lack_of_memory_in_a_step_assigned_per_node_is_everybodys_error) {
  const boost::mpi::communicator world;
  std::vector<SampleShape> shapes;
  for (std::int64_t id = world.rank(); id < 700; id += world.size())
    shapes.push_back({SampleId{id}, 0, 1, id % 3});
  const RaggedBatch mine = made_up_batch(std::move(shapes), {});
  Config config;
  config.balance.meet = SyncPoint::micro_batch;  // one rank decides the strategy for the others
  DataService service(world, config);
  const Step expected = service.step(mine);
  expect_faults_to_be_shared(
      world, [&] { (void)service.step([&] { return mine; }); },
      [&] { expect_equal(service.step(mine), expected); });
}

TEST(Faults, lack_of_memory_in_a_later_pass_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  RaggedBatch added{std::vector<SampleShape>(mine.samples().begin(), mine.samples().end())};
  testing_support::fill_made_up(added,
                                added.add_field({"values", DType::float32, FieldKind::response_token, {}}));
  for (const Case& each : cases_for(world.size())) {
    for (const char* profile : {"again", "elsewhere"}) {
      SCOPED_TRACE(each.name + " " + profile);
      DataService service(world, each.config);
      const Step first = service.step(mine);
      const Step expected = service.step(first, profile, added);
      expect_faults_to_be_shared(
          world, [&] { (void)service.step(copied(first), profile, added); },
          [&] { expect_equal(service.step(first, profile, added), expected); });
    }
  }
}

/// Adds fields with layers, supplied with the samples or added later.
void add_layers(RaggedBatch& batch) {
  for (const FieldKind kind : {FieldKind::token, FieldKind::response_token}) {
    const std::string name = "experts of a " + std::string(name_of(kind));
    std::ranges::fill(batch.add_field({name, DType::int32, kind, {4, 3}}).values<std::int32_t>(), 200);
  }
}

/// Returns these cases with layers, and with fields whose equal values are stored only once.
std::vector<Case> layered_cases(int ranks) {
  std::vector<Case> cases = cases_for(ranks);
  for (Case& each : cases) {
    if (ranks % (2 * each.config.mesh.tp * each.config.mesh.cp) == 0) each.config.mesh.pp = 2;
    for (const char* name : {"experts of a token", "experts of a response_token"})
      each.config.fields[name] = {LayerMap{}, FieldWidth::narrow, FieldWidth::original};
    for (const char* name : {"image_patches", "data_source"})
      each.config.fields[name].share = FieldSharing::equal;
  }
  return cases;
}

TEST(Faults, lack_of_memory_for_layered_or_shared_fields_is_everybodys_error) {
  const boost::mpi::communicator world;
  RaggedBatch mine = share_of(world);
  add_layers(mine);
  expect_faults_in_steps_to_be_shared(world, layered_cases(world.size()), mine);
}

TEST(Faults, lack_of_memory_for_layered_fields_added_later_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  RaggedBatch added{std::vector<SampleShape>(mine.samples().begin(), mine.samples().end())};
  add_layers(added);
  for (const Case& each : layered_cases(world.size())) {
    SCOPED_TRACE(each.name);
    DataService service(world, each.config);
    const Step first = service.step(mine);
    const Step expected = service.step(first, "again", added);
    expect_faults_to_be_shared(
        world, [&] { (void)service.step(copied(first), "again", added); },
        [&] { expect_equal(service.step(first, "again", added), expected); });
  }
}

TEST(Faults, lack_of_memory_with_fields_per_profile_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  for (Case each : cases_for(world.size())) {
    SCOPED_TRACE(each.name);
    each.config.fields["image_patches"].profiles = {"again"};
    DataService service(world, each.config);
    // The second pass sends all samples again, because the first pass did not need all fields.
    const Step first = service.step(mine);
    const Step expected = service.step(first, "again");
    expect_faults_to_be_shared(
        world, [&] { (void)service.step(copied(first), "again"); },
        [&] { expect_equal(service.step(first, "again"), expected); });
  }
}

TEST(Faults, lack_of_memory_while_collecting_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  for (const Case& each : cases_for(world.size())) {
    SCOPED_TRACE(each.name);
    DataService service(world, each.config);
    const Step step = service.step(mine);
    const StepResults results = results_of(step);
    const RaggedBatch expected = service.collect(step, results);
    expect_faults_to_be_shared(
        world, [&] { (void)service.collect(step, results); },
        [&] { EXPECT_EQ(service.collect(step, results).at("log_probs"), expected.at("log_probs")); });
  }
}

TEST(Faults, lack_of_memory_for_samples_of_all_ranks_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  const DataService service(world, Config{});
  expect_faults_to_be_shared(
      world, [&] { (void)gather_samples(service.mesh().world(), mine, 0, {}); },
      [&] {
        EXPECT_EQ(gather_samples(service.mesh().world(), mine, 0, {}).size(), world.rank() == 0 ? 26 : 0);
      });
}

TEST(Faults, lack_of_memory_while_steps_are_made_ahead_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  Config config;
  config.exchange.prefetch = 2;
  const Step expected = DataService(world, config).step(mine);
  expect_faults_to_be_shared(
      world,
      [&] {
        test::ServiceAhead prefetcher(world, config, 3, [&](std::int64_t) { return mine; });
        std::exception_ptr first;
        for (int t = 0; t < 3; ++t) {
          try {
            (void)prefetcher.next();
          } catch (const LimitError&) {
            first = std::current_exception();
          }
        }
        if (first) std::rethrow_exception(first);
      },
      [&] { expect_equal(DataService(world, config).step(mine), expected); });
}

template <typename Thrown>
void expect_a_readers_exception_to_be_shared(const boost::mpi::communicator& world, const Thrown& thrown,
                                             const std::string& text) {
  DataService service(world, Config{});
  const RaggedBatch mine = share_of(world);
  const Step expected = service.step(mine);
  for (const int bad : first_middle_last(world)) {
    const Watchdog watchdog(patience);
    try {
      (void)service.step([&]() -> RaggedBatch {
        if (world.rank() == bad) throw Thrown(thrown);
        return mine;
      });
      FAIL() << "rank " << bad << " threw";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
      EXPECT_THAT(error.what(), HasSubstr("rank " + std::to_string(bad)));
    }
    expect_equal(service.step(mine), expected);
  }
}

TEST(Faults, a_foreign_exception_of_a_reader_is_everybodys_error_with_text_and_rank) {
  const boost::mpi::communicator world;
  expect_a_readers_exception_to_be_shared(world, std::runtime_error("the disk is on fire"),
                                          "the disk is on fire");
  expect_a_readers_exception_to_be_shared(world, 42, "int");
}

}  // namespace
}  // namespace evenkeel
