#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "io/megatron/indexed_dataset.hpp"
#include "io/samples/sample_writer.hpp"
#include "job/output/dump.hpp"
#include "mesh/fail_together.hpp"
#include "service/faults/shared_faults.hpp"
#include "source/shared_folder.hpp"
#include "support/made_up_batch.hpp"
#include "support/packed_text.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using test::expect_faults_to_be_shared;
using test::SharedFolder;
using testing_support::FailingNew;
using testing_support::made_up_batch;

/// A file of rollouts, and an indexed dataset of the same name, that all ranks open.
class SharedRollouts {
 public:
  static constexpr std::int64_t count = 40;

  SharedRollouts() { source.path = folder_.path() / name; }

  SourceSettings source;

 private:
  static constexpr const char* name = "rollouts.jsonl";

  static void fill(const std::filesystem::path& folder) {
    const std::string path = (folder / name).string();
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

  SharedFolder folder_{fill};
};

TEST(Faults, memory_that_a_rank_lacks_while_a_source_is_opened_is_everybodys_error) {
  const boost::mpi::communicator world;
  const SharedRollouts rollouts;
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
  explicit SharedFormats(const boost::mpi::communicator& world) {
    const FailingNew::Paused paused;
    const RaggedBatch mine = made_up_batch({{SampleId{world.rank()}, 1, 2, 3}}, {});
    Config config;
    DataService service(world, config);
    dump_step(folder_.path() / "dump", service.step(mine),
              {service.mesh().grid().sizes(), service.mesh().here()});
    if (world.rank() == 0) write_files(folder_.path());
    world.barrier();
  }

  [[nodiscard]] SourceSettings source(SourceKind kind, const std::string& name) const {
    return folder_.source(kind, name);
  }

 private:
  static void write_files(const std::filesystem::path& path) {
    // The fields of made-up samples, with which these are mixed.
    const std::string line = R"({"prompt_ids":[1],"response_ids":[2,3],"reward":1.0,"advantages":[0.5,1.5]})"
                             "\n";
    testing_support::write_text(path / "a.jsonl", line + line);
    testing_support::write_text(path / "b.jsonl.gz", testing_support::gzipped(line));
    testing_support::write_text(path / "dump" / "evenkeel-run.json",
                                R"({"state":"complete","steps":1,"profiles":[],"files":{"dump":1}})");
    const RaggedBatch batch =
        made_up_batch({{SampleId{0}, 1, 2, 3}, {SampleId{1}, 1, 0, 2}},
                      std::vector<FieldSpec>{{"x", DType::float32, FieldKind::token, {}}});
    const auto writer = make_sample_writer(SampleFormat::safetensors, path / "a.safetensors", {});
    writer->write(batch);
    writer->close();
  }

  SharedFolder folder_;
};

TEST(Faults, memory_that_a_rank_lacks_while_a_source_of_another_format_is_opened_is_everybodys_error) {
  const boost::mpi::communicator world;
  const SharedFormats formats(world);
  for (const SourceSettings& source :
       {formats.source(SourceKind::jsonl, "*.jsonl*"),
        formats.source(SourceKind::safetensors, "*.safetensors"), formats.source(SourceKind::dump, "dump")}) {
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
    DataService service(world, config, state);
    service.require_same_sources(stream);
    return stream.num_samples();
  };
  const std::int64_t samples = go_on();
  expect_faults_to_be_shared(
      world, [&] { (void)go_on(); }, [&] { EXPECT_EQ(SampleStream(world, config).num_samples(), samples); });
}

TEST(Faults, memory_that_a_rank_lacks_while_outliers_are_delayed_is_everybodys_error) {
  const boost::mpi::communicator world;
  Config config;
  config.source.kind = SourceKind::synthetic;
  config.source.samples = 24;
  config.batch.global_batch = 8;
  config.delay = {.steps = 2, .longer_than = 1000, .companions = 2};
  const auto read = [&] {
    SampleStream stream(world, config);
    return together(world,
                    [&] { return stream.read(0).size(); });  // local, as a service's reader agrees on it
  };
  const std::int64_t samples = read();
  expect_faults_to_be_shared(
      world, [&] { (void)read(); }, [&] { EXPECT_EQ(read(), samples); });
}

}  // namespace
}  // namespace evenkeel
