#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/serialization/string.hpp>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "job/dump.hpp"
#include "support/error_message.hpp"
#include "support/made_up_batch.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel {
namespace {

using testing::HasSubstr;
using testing_support::made_up_batch;
using testing_support::made_up_token;
using testing_support::message_of;
using testing_support::mix;
using testing_support::ScratchFolder;
using testing_support::write_text;

constexpr std::int64_t num_samples = 26;

SampleShape shape(std::int64_t id) {
  const auto seed = static_cast<std::uint64_t>(id);
  return {SampleId{id}, seed, 1 + static_cast<std::int64_t>(mix(seed, 1) % 20),
          1 + static_cast<std::int64_t>(mix(seed, 2) % 30)};
}

RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = comm.rank(); id < num_samples; id += comm.size()) shapes.push_back(shape(id));
  return made_up_batch(std::move(shapes),
                       std::vector<FieldSpec>{{"values", DType::float32, FieldKind::token, {2}},
                                              {"rewards", DType::float64, FieldKind::sample, {}}});
}

/// What all ranks were handed in two steps, dumped to a folder; it goes once all are done.
class Dumped {
 public:
  explicit Dumped(const Config& config, const std::string& state = "complete") {
    std::string path;
    if (world_.rank() == 0) path = scratch_.path().string();
    boost::mpi::broadcast(world_, path, 0);
    source.kind = SourceKind::dump;
    source.path = path;
    DataService service(world_, config);
    for (std::int64_t index = 0; index < 2; ++index) {
      Step step = service.step(share_of(world_));
      step.index = index;
      dump_step(path, step, service.mesh().here());
    }
    if (world_.rank() == 0)
      write_text(source.path / "evenkeel-run.json",
                 R"({"state":")" + state + R"(","steps":2,"profiles":[],"files":{"dump":1}})");
    world_.barrier();
  }
  Dumped(const Dumped&) = delete;
  Dumped& operator=(const Dumped&) = delete;
  ~Dumped() { world_.barrier(); }

  SourceSettings source;

 private:
  boost::mpi::communicator world_;
  ScratchFolder scratch_;
};

std::vector<Config> configs_for(int ranks) {
  std::vector<Config> configs;
  for (const CpLayout layout : {CpLayout::zigzag, CpLayout::contiguous}) {
    for (const MicroBatchMode mode :
         {MicroBatchMode::packed, MicroBatchMode::padded, MicroBatchMode::fixed}) {
      for (const int cp : {1, 2, ranks}) {
        if (ranks % cp != 0) continue;
        Config& config = configs.emplace_back();
        config.mesh.cp = cp;
        config.pack.cp_layout = layout;
        config.micro_batch.mode = mode;
        config.micro_batch.max_tokens = 1024;
        if (ranks % (2 * cp) == 0) config.mesh.tp = 2;
      }
    }
  }
  return configs;
}

TEST(DumpSource, gives_back_each_sample_of_each_step_with_what_it_was_handed_out_with) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    const Dumped dumped(config);
    const auto source = open_source(world, dumped.source);
    ASSERT_EQ(source->num_samples(), 2 * num_samples);
    std::vector<std::int64_t> positions(static_cast<std::size_t>(2 * num_samples));
    std::iota(positions.rbegin(), positions.rend(), 0);
    const RaggedBatch batch = source->read(positions);
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const std::int64_t position = positions[static_cast<std::size_t>(i)];
      const SampleShape expected = shape(position % num_samples);
      EXPECT_EQ(batch.samples()[static_cast<std::size_t>(i)].prompt, expected.prompt);
      ASSERT_EQ(source->tokens_in(position), expected.length());
      const RaggedBatch original = made_up_batch(
          {expected}, std::vector<FieldSpec>{{"values", DType::float32, FieldKind::token, {2}},
                                             {"rewards", DType::float64, FieldKind::sample, {}}});
      for (const Column& column : original.fields()) {
        const Column& read = batch.at(column.spec().name);
        EXPECT_EQ(read.spec(), column.spec());
        const RowRange rows = batch.rows_of(column, i);
        EXPECT_TRUE(std::equal(column.bytes().begin(), column.bytes().end(), read.row(rows.begin)));
      }
    }
    EXPECT_THAT(source->left_out(), HasSubstr("'loss_weights' (derived anew), 'labels' (derived anew)"));
    EXPECT_EQ(source->fingerprint(world), open_source(world, dumped.source)->fingerprint(world));
  }
}

TEST(DumpSource, is_refused_where_its_run_has_not_ended_or_files_are_missing) {
  const boost::mpi::communicator world;
  const auto refusal = [&](const SourceSettings& source) {
    return message_of([&] { (void)open_source(world, source); });
  };
  Config config;
  config.micro_batch.max_tokens = 256;
  const Dumped running(config, "running");
  EXPECT_THAT(refusal(running.source), HasSubstr("has not ended"));
  const Dumped complete(config);
  if (world.rank() == 0) std::filesystem::remove_all(complete.source.path / "step-000001");
  world.barrier();
  EXPECT_THAT(refusal(complete.source), HasSubstr("mb-00000.safetensors: is missing"));
  world.barrier();
  SourceSettings step = complete.source;
  step.path /= "step-000000/dp-000";
  EXPECT_THAT(refusal(step), HasSubstr("no run wrote it"));
  step.path = complete.source.path / "nowhere";
  EXPECT_THROW((void)open_source(world, step), IoError);
}

TEST(DumpSource, of_shared_prefixes_is_refused_with_what_to_do) {
  const boost::mpi::communicator world;
  Config config;
  config.prefix = PrefixSharing::prompts;
  const Dumped dumped(config);
  EXPECT_THAT(message_of([&] { (void)open_source(world, dumped.source); }), HasSubstr("prefix.share: false"));
}

TEST(DumpSource, with_a_damaged_file_is_everybodys_error) {
  const boost::mpi::communicator world;
  const Dumped dumped(Config{});
  const auto file = dumped.source.path / "step-000001/dp-000/cp-000/tp-000/pp-000/mb-00000.safetensors";
  world.barrier();
  if (world.rank() == 0) std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  world.barrier();
  EXPECT_THROW((void)open_source(world, dumped.source), InputError);
}

}  // namespace
}  // namespace evenkeel
