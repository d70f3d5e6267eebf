#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/serialization/string.hpp>
#include <cstring>
#include <filesystem>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_source.hpp"
#include "job/dump.hpp"
#include "support/carried_samples.hpp"
#include "support/error_message.hpp"
#include "support/made_up_batch.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::dump_source_test {
namespace {

using testing::HasSubstr;
using testing_support::Carried;
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

/// Beside tokens: of each kind that samples count, too, with rows of no elements, and samples of no rows.
const std::vector<FieldSpec> fields{
    {"values", DType::float32, FieldKind::token, {2}},     {"rewards", DType::float64, FieldKind::sample, {}},
    {"patches", DType::bfloat16, FieldKind::rows, {2, 3}}, {"empty_rows", DType::int32, FieldKind::rows, {0}},
    {"data_source", DType::uint8, FieldKind::text, {}},    {"raw", DType::uint8, FieldKind::bytes, {}}};

RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = comm.rank(); id < num_samples; id += comm.size()) shapes.push_back(shape(id));
  return made_up_batch(std::move(shapes), fields);
}

/// What this rank brings to a step.
using Bring = std::function<RaggedBatch(const boost::mpi::communicator& comm, std::int64_t step)>;

/// With the tokens of each patch: all of its sample.
RaggedBatch with_spans(RaggedBatch batch) {
  Column spans({"spans", DType::int64, FieldKind::rows, {2}}, batch.at("patches").samples());
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    for (std::int64_t row = spans.samples()[i].begin; row < spans.samples()[i].end; ++row)
      spans.values<std::int64_t>()[static_cast<std::size_t>(2 * row + 1)] =
          batch.samples()[static_cast<std::size_t>(i)].length();
  }
  batch.add_field(std::move(spans));
  return batch;
}

/// What all ranks were handed in two steps, dumped to a folder; it goes once all are done.
class Dumped {
 public:
  explicit Dumped(
      const Config& config, const std::string& state = "complete",
      const Bring& bring = [](const auto& comm, std::int64_t) { return share_of(comm); }) {
    std::string path;
    if (world_.rank() == 0) path = scratch_.path().string();
    boost::mpi::broadcast(world_, path, 0);
    source.kind = SourceKind::dump;
    source.path = path;
    DataService service(world_, config);
    for (std::int64_t index = 0; index < 2; ++index) {
      Step step = service.step(bring(world_, index));
      step.index = index;
      dump_step(path, step, service.mesh().here(), dump_form_of(service.plan_settings()));
    }
    if (world_.rank() == 0)
      write_text(source.path / "evenkeel-run.json",
                 R"({"state":")" + state + R"(","steps":2,"profiles":[],"files":{"dump":1}})");
    world_.barrier();
  }
  Dumped(const Dumped&) = delete;
  Dumped& operator=(const Dumped&) = delete;
  ~Dumped() { world_.barrier(); }

  /// Puts one text in the place of another one of as many bytes, in every file whose path has `where`.
  void damage(const std::string& where, const std::string& from, const std::string& to) const {
    EXPECT_EQ(from.size(), to.size());
    world_.barrier();
    if (world_.rank() == 0) {
      for (const auto& file : std::filesystem::recursive_directory_iterator(source.path)) {
        const std::string path = file.path().string();
        if (file.is_regular_file() && path.find(where) != std::string::npos) replace(path, from, to);
      }
    }
    world_.barrier();
  }

  SourceSettings source;

 private:
  static void replace(const std::string& path, const std::string& from, const std::string& to) {
    std::string content = testing_support::read_text(path);
    const std::size_t at = content.find(from);
    EXPECT_NE(at, std::string::npos) << path;
    if (at != std::string::npos) write_text(path, content.replace(at, from.size(), to));
  }

  boost::mpi::communicator world_;
  ScratchFolder scratch_;
};

/// What opening it says, on every rank the same.
std::string refusal_of(const Dumped& dumped) {
  const boost::mpi::communicator world;
  std::string message = "nothing was thrown";
  try {
    (void)open_source(world, dumped.source);
  } catch (const InputError& error) {
    message = error.what();
  }
  std::string of_first = message;
  boost::mpi::broadcast(world, of_first, 0);
  EXPECT_EQ(message, of_first);
  return message;
}

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
        if (mode == MicroBatchMode::packed) config.micro_batch.shapes = 3;
        if (layout == CpLayout::zigzag) continue;
        for (const char* name : {"patches", "raw"}) config.fields[name].share = FieldSharing::equal;
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
      const RaggedBatch original = made_up_batch({expected}, fields);
      for (const Column& column : original.fields()) {
        const Column& read = batch.at(column.spec().name);
        EXPECT_EQ(read.spec(), column.spec());
        const RowRange rows = batch.rows_of(read, i);
        ASSERT_EQ(rows.size(), column.rows()) << column.spec().name;
        EXPECT_TRUE(std::equal(column.bytes().begin(), column.bytes().end(), read.row(rows.begin)));
      }
    }
    EXPECT_THAT(source->left_out(), HasSubstr("'loss_weights' (derived anew), 'labels' (derived anew)"));
    EXPECT_EQ(source->fingerprint(world), open_source(world, dumped.source)->fingerprint(world));
  }
}

/// Samples with fields of every way, of which those of the second step are others.
RaggedBatch carried_share(const boost::mpi::communicator& comm, const std::vector<Carried>& carried) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = comm.rank(); id < num_samples; id += comm.size())
    shapes.push_back(testing_support::carried_shape(id));
  return testing_support::carried_batch(std::move(shapes), carried);
}

/// Whatever a sample of a dump has in a field, as it stands in what is read of it at `i`.
void expect_read_back(const RaggedBatch& batch, std::int64_t i, const SampleShape& sample,
                      const Carried& field) {
  const Column& column = batch.at(field.name());
  EXPECT_EQ(column.spec().dtype, field.handed_out) << field.name();
  EXPECT_EQ(column.spec().trailing, field.spec.trailing) << field.name();
  const bool beside_label = field.spec.kind == FieldKind::response_token;
  EXPECT_EQ(column.spec().kind, beside_label ? FieldKind::token : field.spec.kind) << field.name();
  const RowRange rows = batch.rows_of(column, i);
  if (is_counted(field.spec.kind)) {
    ASSERT_EQ(rows.size(), testing_support::carried_rows(field, sample)) << field.name();
  }
  for (std::int64_t r = 0; r < rows.size(); ++r) {
    const std::int64_t row = beside_label ? r + 1 - sample.prompt : r;
    const bool is_there = !beside_label || (row >= 0 && row < sample.response);
    for (std::int64_t e = 0; e < testing_support::elements_of(field.spec); ++e)
      ASSERT_EQ(testing_support::number_at(column, rows.begin + r, e),
                is_there ? testing_support::carried_number(field, sample, row, e) : 0)
          << field.name() << " of sample " << sample.id.value();
  }
}

TEST(DumpSource, gives_back_fields_of_every_way) {
  const boost::mpi::communicator world;
  const std::vector<Carried> carried = testing_support::carried_fields_of_every_way();
  for (const int cp : std::set{1, world.size()}) {
    Config config;
    config.mesh.cp = cp;
    config.micro_batch.max_tokens = 256;
    config.fields = testing_support::settings_of(carried);
    const Dumped dumped(config, "complete",
                        [&](const auto& comm, std::int64_t) { return carried_share(comm, carried); });
    const auto source = open_source(world, dumped.source);
    ASSERT_EQ(source->num_samples(), 2 * num_samples);
    std::vector<std::int64_t> positions(static_cast<std::size_t>(2 * num_samples));
    std::iota(positions.begin(), positions.end(), 0);
    const RaggedBatch batch = source->read(positions);
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      for (const Carried& field : carried)
        expect_read_back(batch, i, testing_support::carried_shape(i % num_samples), field);
    }
  }
}

TEST(DumpSource, of_fields_that_it_cannot_give_back_is_refused_by_name) {
  const boost::mpi::communicator world;
  const std::vector<Carried> carried = testing_support::carried_fields_of_every_way();
  const auto refusal = [&](const Config& config,
                           const std::function<void(RaggedBatch&, std::int64_t)>& change) {
    const Dumped dumped(config, "complete", [&](const auto& comm, std::int64_t step) {
      RaggedBatch batch = carried_share(comm, carried);
      change(batch, step);
      return batch;
    });
    return refusal_of(dumped);
  };
  const auto as_it_is = [](RaggedBatch&, std::int64_t) {};
  Config config;
  config.micro_batch.max_tokens = 256;
  config.fields = testing_support::settings_of(carried);
  const auto small_versions = [](RaggedBatch& batch, std::int64_t step) {
    for (std::int64_t& version : batch.find("versions")->values<std::int64_t>())
      version %= step == 0 ? 256 : 60001;
  };
  EXPECT_THAT(refusal(config, small_versions),
              HasSubstr("tensor 'versions' that is missing, or of another type"));
  Config flexible = config;
  flexible.mesh.flexible_cp = true;
  flexible.micro_batch.max_tokens_per_rank = 64;
  EXPECT_THAT(refusal(flexible, as_it_is), HasSubstr("mesh.cp: flexible"));
  if (world.size() % 2 != 0) return;
  config.mesh.pp = 2;
  EXPECT_THAT(refusal(config, as_it_is), HasSubstr("field 'experts' of layers"));
  for (auto& field : config.fields) field.second.layers.reset();
  EXPECT_THAT(refusal(config, as_it_is), HasSubstr("field 'data_source' in its first pipeline stage alone"));
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

TEST(DumpSource, of_fields_that_the_last_stage_has_in_part_or_not_at_all_is_refused_by_name) {
  const boost::mpi::communicator world;
  const auto refusal = [&](const Config& config) {
    const Dumped dumped(config);
    return message_of([&] { (void)open_source(world, dumped.source); });
  };
  Config config;
  config.fields["values"].layers = LayerMap{{{1, 0}}};
  EXPECT_THAT(refusal(config), HasSubstr("field 'values' of layers"));
  config.fields["values"].layers = LayerMap{{{0, 1}}};
  EXPECT_EQ(refusal(config), "nothing was thrown");
  if (world.size() % 2 != 0) return;
  config.mesh.pp = 2;
  config.fields["values"].layers = LayerMap{};
  EXPECT_THAT(refusal(config), HasSubstr("field 'values' of layers"));
  config.fields.clear();
  config.fields["patches"].stage = FieldStages::first;
  EXPECT_THAT(refusal(config), HasSubstr("field 'patches' in its first pipeline stage alone"));
  config.fields["patches"].stage = FieldStages::all;
  EXPECT_EQ(refusal(config), "nothing was thrown");
}

TEST(DumpSource, of_rows_that_context_parallel_ranks_have_in_parts_is_refused_by_name) {
  const boost::mpi::communicator world;
  Config config;
  config.fields["patches"].cut_by = "spans";
  const auto answer = [&] {
    const Dumped dumped(config, "complete",
                        [](const auto& comm, std::int64_t) { return with_spans(share_of(comm)); });
    return refusal_of(dumped);
  };
  EXPECT_EQ(answer(), "nothing was thrown");
  if (world.size() % 2 != 0) return;
  config.mesh.cp = 2;
  EXPECT_THAT(answer(), HasSubstr("field 'patches' whose rows context-parallel ranks have in parts"));
}

TEST(DumpSource, of_offsets_that_fit_no_rows_is_everybodys_error) {
  const Dumped dumped(Config{});
  // The list stands as long as it is, under a name that tells of nothing.
  dumped.damage("step-000001/dp-000/cp-000/tp-000/pp-000/mb-00000", "\"raw_offsets\"", "\"raw_0ffsets\"");
  EXPECT_THAT(refusal_of(dumped), HasSubstr("raw_offsets"));
}

TEST(DumpSource, whose_metadata_tell_of_layers_that_its_tensors_have_not_is_everybodys_error) {
  Config config;
  config.fields["values"].layers = LayerMap{{{0, 1}}};
  const std::string told = R"({\"values\":[0,1]})";
  for (const char* other :
       {R"({\"values\":[0,1]x)", R"({\"values\":[0   ])", R"([\"values\",0,1])", R"({\"valuez\":[0,1]})",
        R"({\"values\":[0,0]})", R"({\"values\":[0,-]})", R"({\"values\":3    })", R"({\"input\": [0,1]})"}) {
    const Dumped dumped(config);
    dumped.damage("mb-", told, std::string(other) + std::string(told.size() - std::strlen(other), ' '));
    EXPECT_THAT(refusal_of(dumped),
                testing::AllOf(HasSubstr("mb-00000.safetensors"), HasSubstr("evenkeel_layers")))
        << other;
  }
}

TEST(DumpSource, whose_files_tell_of_different_layers_is_everybodys_error) {
  const boost::mpi::communicator world;
  Config config;
  config.mesh.cp = world.size();
  config.fields["values"].layers = LayerMap{{{0, 1}}};
  const std::string last = "step-000001/dp-000/cp-" + std::string(world.size() < 11 ? "00" : "0") +
                           std::to_string(world.size() - 1);
  const auto refusal = [&](const std::string& where, const std::string& from, const std::string& to) {
    const Dumped dumped(config);
    dumped.damage(where, from, to);
    return refusal_of(dumped);
  };
  EXPECT_THAT(refusal(last, "[0,1]", "[1,0]"), HasSubstr("evenkeel_layers"));
  EXPECT_THAT(refusal(last, "\"evenkeel_layers\"", "\"evenkeel_l4yers\""), HasSubstr("evenkeel_layers"));
  if (world.size() % 2 != 0) return;
  config.mesh.cp = 1;
  config.mesh.pp = 2;
  config.fields["values"].layers = LayerMap{{{0}, {0, 1}}};
  // The last stage has all layers, but the first one tells of its own.
  EXPECT_THAT(refusal("pp-001", "\"evenkeel_layers\"", "\"evenkeel_l4yers\""),
              HasSubstr("field 'values' of layers"));
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
}  // namespace evenkeel::dump_source_test
