#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "exchange/result_exchange.hpp"
#include "io/indexed_dataset.hpp"
#include "io/sample_writer.hpp"
#include "job/dump.hpp"
#include "report/step_figures.hpp"
#include "service/equal_steps.hpp"
#include "service/faults.hpp"
#include "service/step_record.hpp"
#include "support/failing_new.hpp"
#include "support/foreign_ranks.hpp"
#include "support/made_up_batch.hpp"
#include "support/packed_text.hpp"
#include "support/scratch_folder.hpp"

// What one rank cannot do is everybody's error. Here allocation after allocation fails on one rank, in each
// collective operation, and every rank must throw the same error, in time, and be able to go on.

namespace evenkeel {
namespace {

using test::allocations_to_fail;
using test::expect_equal;
using test::Outcome;
using test::outcome_of;
using test::patience;
using test::Watchdog;
using testing::HasSubstr;
using testing_support::FailingNew;
using testing_support::made_up_batch;
using testing_support::made_up_shape;
using testing_support::RanksBehindMpi;

std::set<int> first_middle_last(const boost::mpi::communicator& world) {
  return {0, world.size() / 2, world.size() - 1};
}

/// Lets the allocations of `operation`, which is collective, fail on one rank after the other. After each
/// fault `still_works` must find everything in order.
void expect_faults_to_be_shared(const boost::mpi::communicator& world, const std::function<void()>& operation,
                                const std::function<void()>& still_works) {
  operation();  // what is made once is made
  for (const int bad : first_middle_last(world)) {
    FailingNew::arm(-1);
    operation();
    std::int64_t count = FailingNew::disarm();
    boost::mpi::broadcast(world, count, bad);
    for (const std::int64_t number : allocations_to_fail(count)) {
      for (const auto reach : {FailingNew::Reach::one, FailingNew::Reach::rest}) {
        SCOPED_TRACE("allocation " + std::to_string(number) + " of rank " + std::to_string(bad) +
                     (reach == FailingNew::Reach::one ? "" : " and all after it"));
        const Watchdog watchdog(patience);
        const Outcome mine = outcome_of([&] {
          if (world.rank() == bad) FailingNew::arm(number, reach);
          try {
            operation();
          } catch (...) {
            FailingNew::disarm();
            throw;
          }
          FailingNew::disarm();
        });
        const std::array<int, 2> here{static_cast<int>(mine), -static_cast<int>(mine)};
        std::array<int, 2> most{};
        boost::mpi::all_reduce(world, here.data(), 2, most.data(), boost::mpi::maximum<int>());
        ASSERT_EQ(most[0], -most[1]) << "ranks ended differently, this one with " << static_cast<int>(mine);
        ASSERT_NE(mine, Outcome::other);
        still_works();
      }
    }
  }
}

RaggedBatch share_of(const boost::mpi::communicator& comm, std::int64_t samples = 26) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < samples; ++id) {
    if (id * id % comm.size() == comm.rank()) shapes.push_back(made_up_shape(id));
  }
  return made_up_batch(std::move(shapes), testing_support::made_up_fields());
}

/// Samples that share prompts, some over ranks.
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

/// A copy made by the trainer, whose memory is not what is asked about.
Step copied(const Step& step) {
  const FailingNew::Paused paused;
  return step;
}

struct Case {
  std::string name;
  Config config;
};

/// One configuration for each way that bytes and plans may go.
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

TEST(Faults, memory_that_a_rank_lacks_in_a_step_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  for (const Case& each : cases_for(world.size())) {
    SCOPED_TRACE(each.name);
    DataService service(world, each.config);
    const Step expected = service.step(mine);
    expect_faults_to_be_shared(
        world, [&] { (void)service.step([&] { return mine; }); },
        [&] { expect_equal(service.step(mine), expected); });
  }
}

TEST(Faults, memory_that_a_rank_lacks_in_a_step_of_ranks_without_mpi_is_everybodys_error) {
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

TEST(Faults, memory_that_a_rank_lacks_where_samples_share_prefixes_is_everybodys_error) {
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

TEST(Faults, memory_that_a_rank_lacks_in_a_step_that_nodes_deal_is_everybodys_error) {
  const boost::mpi::communicator world;
  std::vector<SampleShape> shapes;
  for (std::int64_t id = world.rank(); id < 700; id += world.size())
    shapes.push_back({SampleId{id}, 0, 1, id % 3});
  const RaggedBatch mine = made_up_batch(std::move(shapes), {});
  DataService service(world, Config{});
  const Step expected = service.step(mine);
  expect_faults_to_be_shared(
      world, [&] { (void)service.step([&] { return mine; }); },
      [&] { expect_equal(service.step(mine), expected); });
}

TEST(Faults, memory_that_a_rank_lacks_in_a_later_pass_is_everybodys_error) {
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

TEST(Faults, memory_that_a_rank_lacks_on_the_way_back_is_everybodys_error) {
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

TEST(Faults, memory_that_a_rank_lacks_while_a_service_is_made_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  for (const Case& each : cases_for(world.size())) {
    SCOPED_TRACE(each.name);
    const Step expected = DataService(world, each.config).step(mine);
    expect_faults_to_be_shared(
        world, [&] { const DataService service(world, each.config); },
        [&] { expect_equal(DataService(world, each.config).step(mine), expected); });
  }
}

TEST(Faults, memory_that_a_rank_lacks_to_tell_how_configurations_differ_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  Config own;
  if (world.rank() == 1) own.micro_batch.max_tokens = 64;
  const auto expect_refusal = [&] {
    try {
      const DataService service(world, own);
      ADD_FAILURE() << "is not refused";
    } catch (const ConfigError&) {  // where memory ran out for its text, with less of it
    }
  };
  const Step expected = DataService(world, Config{}).step(mine);
  expect_faults_to_be_shared(world, expect_refusal,
                             [&] { expect_equal(DataService(world, Config{}).step(mine), expected); });
}

/// A file of rollouts, and an indexed dataset of the same name, that all ranks open; rank 0 makes it, and
/// removes it once all are done.
class SharedRollouts {
 public:
  static constexpr std::int64_t count = 40;

  explicit SharedRollouts(const boost::mpi::communicator& world) : world_(world) {
    std::string path;
    if (world.rank() == 0) {
      path = (folder_.emplace() / "rollouts.jsonl").string();
      std::string lines;
      for (std::int64_t i = 0; i < count; ++i)
        lines += R"({"prompt_ids":[1,2],"response_ids":[3],"reward":0.5,"text":"a"})"
                 "\n";
      testing_support::write_text(path, lines);
      IndexedDatasetWriter writer(path, IndexedDType::uint16);
      for (std::int64_t i = 0; i < count; ++i) {
        writer.add_sequence(std::vector<std::int64_t>{1, 2, 3});
        writer.end_document();
      }
      writer.commit();
    }
    boost::mpi::broadcast(world, path, 0);
    source.path = path;
  }
  SharedRollouts(const SharedRollouts&) = delete;
  SharedRollouts& operator=(const SharedRollouts&) = delete;
  ~SharedRollouts() { world_.barrier(); }

  SourceSettings source;

 private:
  boost::mpi::communicator world_;
  std::optional<testing_support::ScratchFolder> folder_;
};

TEST(Faults, memory_that_a_rank_lacks_while_a_source_is_opened_is_everybodys_error) {
  const boost::mpi::communicator world;
  const SharedRollouts rollouts(world);
  SourceSettings source = rollouts.source;
  source.samples = SharedRollouts::count;
  for (const SourceKind kind :
       {SourceKind::jsonl, SourceKind::lengths, SourceKind::megatron, SourceKind::synthetic}) {
    SCOPED_TRACE(static_cast<int>(kind));
    source.kind = kind;
    expect_faults_to_be_shared(
        world, [&] { (void)open_source(world, source); },
        [&] { EXPECT_EQ(open_source(world, source)->num_samples(), SharedRollouts::count); });
  }
}

/// The same rollouts in two files that a pattern names, one of them packed, as tensors, and as a dump.
class SharedFormats {
 public:
  explicit SharedFormats(const boost::mpi::communicator& world) : world_(world) {
    const FailingNew::Paused paused;
    std::string path;
    if (world_.rank() == 0) {
      folder_.emplace();
      path = folder_->path().string();
    }
    boost::mpi::broadcast(world_, path, 0);
    path_ = path;
    const RaggedBatch mine = made_up_batch({{SampleId{world.rank()}, 1, 2, 3}}, {});
    Config config;
    dump_step(path_ / "dump", DataService(world_, config).step(mine),
              DataService(world_, config).mesh().here());
    if (world_.rank() == 0) write_files();
    world_.barrier();
  }
  SharedFormats(const SharedFormats&) = delete;
  SharedFormats& operator=(const SharedFormats&) = delete;
  ~SharedFormats() { world_.barrier(); }

  [[nodiscard]] SourceSettings source(SourceKind kind, const std::string& name) const {
    SourceSettings source;
    source.kind = kind;
    source.path = path_ / name;
    return source;
  }

 private:
  void write_files() const {
    const std::string line = R"({"prompt_ids":[1],"response_ids":[2,3],"reward":1})"
                             "\n";
    testing_support::write_text(path_ / "a.jsonl", line + line);
    testing_support::write_text(path_ / "b.jsonl.gz", testing_support::gzipped(line));
    testing_support::write_text(path_ / "dump" / "evenkeel-run.json",
                                R"({"state":"complete","steps":1,"profiles":[],"files":{"dump":1}})");
    const RaggedBatch batch =
        made_up_batch({{SampleId{0}, 1, 2, 3}, {SampleId{1}, 1, 0, 2}},
                      std::vector<FieldSpec>{{"x", DType::float32, FieldKind::token, {}}});
    for (const auto& [format, name] :
         {std::pair{SampleFormat::safetensors, "a.safetensors"}, {SampleFormat::npz, "a.npz"}}) {
      const auto writer = make_sample_writer(format, path_ / name, {});
      writer->write(batch);
      writer->close();
    }
  }

  boost::mpi::communicator world_;
  std::optional<testing_support::ScratchFolder> folder_;
  std::filesystem::path path_;
};

TEST(Faults, memory_that_a_rank_lacks_while_a_source_of_another_format_is_opened_is_everybodys_error) {
  const boost::mpi::communicator world;
  const SharedFormats formats(world);
  for (const SourceSettings& source :
       {formats.source(SourceKind::jsonl, "*.jsonl*"),
        formats.source(SourceKind::safetensors, "*.safetensors"), formats.source(SourceKind::numpy, "a.npz"),
        formats.source(SourceKind::dump, "dump")}) {
    SCOPED_TRACE(source.path);
    const std::int64_t count = open_source(world, source)->num_samples();
    expect_faults_to_be_shared(
        world, [&] { (void)open_source(world, source); },
        [&] { EXPECT_EQ(open_source(world, source)->num_samples(), count); });
  }
}

TEST(Faults, memory_that_a_rank_lacks_while_sources_are_mixed_or_a_job_goes_on_is_everybodys_error) {
  const boost::mpi::communicator world;
  const SharedFormats formats(world);
  Config config;
  config.sources = {{"a", formats.source(SourceKind::jsonl, "*.jsonl*")},
                    {"b", formats.source(SourceKind::synthetic, "")}};
  config.sources.at("b").samples = 20;
  config.filter = {.too_long = TooLong::split, .empty = EmptySample::drop, .max_length = 1000};
  config.mix = MixBy::tokens;
  config.micro_batch.max_tokens = 8192;
  const auto go_on = [&] {
    SampleStream stream(world, config);
    ServiceState state = together(world, [&] { return state_of_new_job(config); });  // local
    stream.describe(state);
    const DataService service(world, config, state);
    return stream.num_samples();
  };
  const std::int64_t samples = go_on();
  expect_faults_to_be_shared(
      world, [&] { (void)go_on(); }, [&] { EXPECT_EQ(SampleStream(world, config).num_samples(), samples); });
}

TEST(Faults, memory_that_a_rank_lacks_for_measured_costs_is_everybodys_error) {
  const boost::mpi::communicator world;
  Config config;
  config.micro_batch.max_tokens = 200;
  config.balance.measured = MeasuredCost{};
  config.balance.measured->every = 1;
  DataService service(world, config);
  const RaggedBatch mine = share_of(world);
  const auto report = [&](const Step& step) {
    for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
      service.report_time(step, m, 1e-3 * static_cast<double>(1 + step.record->plan.micro_batches[m].tokens));
  };
  Step step = service.step(mine);
  expect_faults_to_be_shared(
      world, [&] { const Step made = service.step([&] { return mine; }); },
      [&] {
        step = service.step(mine);
        report(step);
        EXPECT_EQ(boost::mpi::all_reduce(world, step.record->cost.model.quadratic,
                                         boost::mpi::maximum<std::int64_t>()),
                  step.record->cost.model.quadratic);
      });
}

TEST(Faults, memory_that_a_rank_lacks_for_figures_and_samples_of_all_ranks_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  DataService service(world, Config{});
  const Step step = service.step(mine);
  const PlanSettings settings = service.plan_settings();
  expect_faults_to_be_shared(
      world, [&] { (void)gather_figures(service.mesh(), settings, step); },
      [&] { EXPECT_EQ(gather_figures(service.mesh(), settings, step).has_value(), world.rank() == 0); });
  expect_faults_to_be_shared(
      world, [&] { (void)gather_samples(service.mesh().world(), mine, 0, {}); },
      [&] {
        EXPECT_EQ(gather_samples(service.mesh().world(), mine, 0, {}).size(), world.rank() == 0 ? 26 : 0);
      });
}

TEST(Faults, memory_that_a_rank_lacks_while_steps_are_made_ahead_is_everybodys_error) {
  const boost::mpi::communicator world;
  const RaggedBatch mine = share_of(world);
  Config config;
  config.exchange.prefetch = 2;
  const Step expected = DataService(world, config).step(mine);
  expect_faults_to_be_shared(
      world,
      [&] {
        Prefetcher prefetcher(world, config, 3, [&](std::int64_t) { return mine; });
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

TEST(Faults, what_a_reader_throws_that_is_not_ours_is_everybodys_error_with_its_text_and_rank) {
  const boost::mpi::communicator world;
  expect_a_readers_exception_to_be_shared(world, std::runtime_error("the disk is on fire"),
                                          "the disk is on fire");
  expect_a_readers_exception_to_be_shared(world, 42, "int");
}

}  // namespace
}  // namespace evenkeel
