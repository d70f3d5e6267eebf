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
#include "job/output/dump.hpp"
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

/// Fields that samples have in addition to tokens: of every kind, including counted ones, with rows without
/// elements, and samples without rows.
const std::vector<FieldSpec> fields{{"advantages", DType::float32, FieldKind::response_token, {}},
                                    {"values", DType::float32, FieldKind::token, {2}},
                                    {"rewards", DType::float64, FieldKind::sample, {}},
                                    {"patches", DType::bfloat16, FieldKind::rows, {2, 3}},
                                    {"empty_rows", DType::int32, FieldKind::rows, {0}},
                                    {"data_source", DType::uint8, FieldKind::text, {}},
                                    {"raw", DType::uint8, FieldKind::bytes, {}}};

RaggedBatch share_of(const boost::mpi::communicator& comm) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = comm.rank(); id < num_samples; id += comm.size()) shapes.push_back(shape(id));
  return made_up_batch(std::move(shapes), fields);
}

/// Returns what this rank supplies for a step.
using Bring = std::function<RaggedBatch(const boost::mpi::communicator& comm, std::int64_t step)>;

/// Adds the tokens of each patch; some patches overlap and some are equal.
RaggedBatch with_spans(RaggedBatch batch) {
  Column spans({"spans", DType::int64, FieldKind::rows, {2}}, batch.at("patches").samples());
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = spans.samples()[i];
    const std::int64_t length = batch.samples()[static_cast<std::size_t>(i)].length();
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t begin = (row - rows.begin) / 2 * 2 * length / (rows.size() + 1);
      const auto at = static_cast<std::size_t>(2 * row);
      spans.values<std::int64_t>()[at] = begin;
      spans.values<std::int64_t>()[at + 1] = std::min(length, begin + 1 + length / 3);
    }
  }
  batch.add_field(std::move(spans));
  return batch;
}

/// A dump of everything that all ranks received in two steps. Its folder is removed after all ranks are done.
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
      dump_step(
          path, step,
          {service.mesh().grid().sizes(), service.mesh().here(), dump_form_of(service.plan_settings())});
    }
    if (world_.rank() == 0)
      write_text(source.path / "evenkeel-run.json",
                 R"({"state":")" + state + R"(","steps":2,"profiles":[],"files":{"dump":1}})");
    world_.barrier();
  }
  Dumped(const Dumped&) = delete;
  Dumped& operator=(const Dumped&) = delete;
  ~Dumped() { world_.barrier(); }

  /// Replaces one text by another one of the same size, in every file whose path contains `where`.
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

  /// Removes every file whose path satisfies the condition.
  void lose(const std::function<bool(const std::string&)>& is_lost) const {
    world_.barrier();
    if (world_.rank() == 0) {
      std::vector<std::filesystem::path> lost;
      for (const auto& file : std::filesystem::recursive_directory_iterator(source.path)) {
        if (file.is_regular_file() && is_lost(file.path().string())) lost.push_back(file.path());
      }
      EXPECT_FALSE(lost.empty());
      for (const std::filesystem::path& path : lost) std::filesystem::remove(path);
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

/// Returns the error from opening the dump, which is the same on every rank.
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

Config flexible_config(int ranks, Strategy strategy) {
  Config config;
  config.mesh.flexible_cp = true;
  config.balance.strategy = strategy;
  // Makes some samples need several ranks.
  config.micro_batch.max_tokens_per_rank = ranks == 1 ? 70 : ranks < 4 ? 36 : 18;
  return config;
}

std::vector<Config> configs_for(int ranks) {
  std::vector<Config> configs{flexible_config(ranks, Strategy::hierarchical),
                              flexible_config(ranks, Strategy::grid)};
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
        config.micro_batch.length_round = 4;  // padded micro-batches of several widths
        if (mode == MicroBatchMode::padded) config.micro_batch.max_tokens = 128;
        if (ranks % (2 * cp) == 0) config.mesh.tp = 2;
        if (mode == MicroBatchMode::packed) config.micro_batch.shapes = 3;
        if (layout == CpLayout::zigzag) continue;
        for (const char* name : {"patches", "raw"}) config.fields[name].share = FieldSharing::equal;
      }
    }
  }
  return configs;
}

/// Returns all samples of a dump, from the last one to the first.
RaggedBatch all_of(const SampleSource& source) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(source.num_samples()));
  std::iota(positions.rbegin(), positions.rend(), 0);
  return source.read(positions);
}

/// Requires that two steps with the same samples are read back as supplied, in their order.
void expect_given_back(const Dumped& dumped,
                       const std::function<RaggedBatch(RaggedBatch)>& change = std::identity()) {
  const boost::mpi::communicator world;
  const auto source = open_source(world, dumped.source);
  ASSERT_EQ(source->num_samples(), 2 * num_samples);
  const RaggedBatch batch = all_of(*source);
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const std::int64_t position = 2 * num_samples - 1 - i;
    const SampleShape expected = shape(position % num_samples);
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    EXPECT_EQ(sample.prompt, expected.prompt);
    // A sample without a group gets its own group, whose number follows from its position.
    if (expected.group != 0) {
      EXPECT_EQ(sample.group, expected.group);
    }
    ASSERT_EQ(source->tokens_in(position), expected.length());
    const RaggedBatch original = change(made_up_batch({expected}, fields));
    ASSERT_EQ(batch.fields().size(), original.fields().size());
    for (const Column& column : original.fields()) {
      const Column& read = batch.at(column.spec().name);
      EXPECT_EQ(read.spec(), column.spec());
      const RowRange rows = batch.rows_of(read, i);
      ASSERT_EQ(rows.size(), column.rows()) << column.spec().name;
      EXPECT_TRUE(std::equal(column.bytes().begin(), column.bytes().end(), read.row(rows.begin)))
          << column.spec().name << " of sample " << expected.id.value();
    }
  }
}

TEST(DumpSource, returns_each_sample_of_each_step_unchanged) {
  const boost::mpi::communicator world;
  for (const Config& config : configs_for(world.size())) {
    const Dumped dumped(config);
    expect_given_back(dumped);
    const auto source = open_source(world, dumped.source);
    EXPECT_EQ(source->ignored_content(),
              "'loss_weights' (derived again), 'labels' (derived again), 'loss_mask' (derived again), "
              "'position_ids' (derived again)");
    EXPECT_EQ(source->fingerprint(world), open_source(world, dumped.source)->fingerprint(world));
  }
}

TEST(DumpSource, returns_cut_rows_once_from_any_ranks) {
  const boost::mpi::communicator world;
  for (Config config : configs_for(world.size())) {
    if (!config.fields.empty() || config.micro_batch.mode == MicroBatchMode::fixed) continue;
    config.fields["patches"].cut_by = "spans";
    const Dumped dumped(config, "complete",
                        [](const auto& comm, std::int64_t) { return with_spans(share_of(comm)); });
    expect_given_back(dumped, [](RaggedBatch original) { return with_spans(std::move(original)); });
  }
}

TEST(DumpSource, returns_layers_and_fields_of_any_stages) {
  const boost::mpi::communicator world;
  for (const auto& [pp, map] : {std::pair{1, LayerMap{{{1, 0}}}},
                                {2, LayerMap{}},
                                {2, LayerMap{{{0}, {1, 0}}}},
                                {2, LayerMap{{{}, {1, 0}}}}}) {
    if (world.size() % pp != 0) continue;
    Config config;
    config.mesh.pp = pp;
    config.fields["values"].layers = map;
    config.fields["patches"].stage = FieldStages::first;
    config.fields["raw"].stage = FieldStages::all;
    expect_given_back(Dumped(config));
  }
}

/// Returns samples with fields of every kind, some of which differ in the second step.
RaggedBatch carried_share(const boost::mpi::communicator& comm, const std::vector<Carried>& carried) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = comm.rank(); id < num_samples; id += comm.size())
    shapes.push_back(testing_support::carried_shape(id));
  return testing_support::carried_batch(std::move(shapes), carried);
}

/// Requires that a dumped sample's value of a field is at index `i` of the batch.
void expect_read_back(const RaggedBatch& batch, std::int64_t i, const SampleShape& sample,
                      const Carried& field) {
  const Column& column = batch.at(field.name());
  FieldSpec expected = field.spec;
  expected.dtype = field.delivered_dtype;
  EXPECT_EQ(column.spec(), expected);
  const RowRange rows = batch.rows_of(column, i);
  if (is_counted(field.spec.kind)) {
    ASSERT_EQ(rows.size(), testing_support::carried_rows(field, sample)) << field.name();
  }
  for (std::int64_t row = 0; row < rows.size(); ++row) {
    // Nothing predicts the token at the start of a sequence, so no rank has its row.
    const bool is_lost = field.spec.kind == FieldKind::response_token && sample.prompt + row == 0;
    for (std::int64_t e = 0; e < testing_support::elements_of(field.spec); ++e)
      ASSERT_EQ(testing_support::number_at(column, rows.begin + row, e),
                is_lost ? 0 : testing_support::carried_number(field, sample, row, e))
          << field.name() << " of sample " << sample.id.value();
  }
}

TEST(DumpSource, returns_fields_of_every_kind_of_setting) {
  const boost::mpi::communicator world;
  const std::vector<Carried> carried = testing_support::carried_fields_of_every_way();
  std::vector<Config> configs(2);
  configs[1].mesh.cp = world.size();
  if (world.size() % 2 == 0) {
    configs.emplace_back().mesh.pp = 2;
    configs.emplace_back(configs.back()).mesh.vpp = 2;
    configs.emplace_back(configs[2]).mesh.cp = world.size() / 2;
  }
  configs.push_back(flexible_config(world.size(), Strategy::hierarchical));
  for (Config& config : configs) {
    if (!config.mesh.flexible_cp) config.micro_batch.max_tokens = 256;
    config.fields = testing_support::settings_of(carried);
    const Dumped dumped(config, "complete",
                        [&](const auto& comm, std::int64_t) { return carried_share(comm, carried); });
    const auto source = open_source(world, dumped.source);
    ASSERT_EQ(source->num_samples(), 2 * num_samples);
    const RaggedBatch batch = all_of(*source);
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const std::int64_t position = 2 * num_samples - 1 - i;
      for (const Carried& field : carried)
        expect_read_back(batch, i, testing_support::carried_shape(position % num_samples), field);
    }
  }
}

TEST(DumpSource, refuses_a_field_whose_type_changes_by_name) {
  const std::vector<Carried> carried = testing_support::carried_fields_of_every_way();
  Config config;
  config.micro_batch.max_tokens = 256;
  config.fields = testing_support::settings_of(carried);
  const Dumped dumped(config, "complete", [&](const auto& comm, std::int64_t step) {
    RaggedBatch batch = carried_share(comm, carried);
    for (std::int64_t& version : batch.find("versions")->values<std::int64_t>())
      version %= step == 0 ? 256 : 60001;
    return batch;
  });
  const std::string refusal = refusal_of(dumped);
  EXPECT_THAT(refusal, HasSubstr("has tensor 'versions' as a uint16 response_token field; "));
  EXPECT_THAT(refusal, HasSubstr(" has it as a uint8 response_token field"));
  EXPECT_THAT(refusal,
              HasSubstr("If the run set fields.versions.dtype: narrow, dump it again without that setting"));
}

TEST(DumpSource, refuses_a_field_that_only_some_steps_have_by_name) {
  const std::vector<FieldSpec> rewards{{"rewards", DType::float64, FieldKind::sample, {}}};
  for (const std::int64_t step_with_field : {0, 1}) {
    const Dumped dumped(Config{}, "complete", [&](const auto& comm, std::int64_t step) {
      std::vector<SampleShape> shapes;
      for (std::int64_t id = comm.rank(); id < num_samples; id += comm.size()) shapes.push_back(shape(id));
      return made_up_batch(std::move(shapes), step == step_with_field ? rewards : std::vector<FieldSpec>{});
    });
    EXPECT_THAT(refusal_of(dumped), HasSubstr(step_with_field == 0 ? "has no tensor 'rewards', but "
                                                                   : "has tensor 'rewards', but "));
  }
}

TEST(DumpSource, refuses_an_unfinished_run_and_missing_files) {
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
  EXPECT_THAT(refusal(step), HasSubstr("which is in every dump"));
  step.path = complete.source.path / "nowhere";
  EXPECT_THROW((void)open_source(world, step), IoError);
}

TEST(DumpSource, refuses_shared_prefixes_with_a_remedy) {
  const boost::mpi::communicator world;
  Config config;
  config.prefix = PrefixSharing::prompts;
  const Dumped dumped(config);
  EXPECT_THAT(message_of([&] { (void)open_source(world, dumped.source); }), HasSubstr("prefix.share: false"));
}

TEST(DumpSource, a_missing_file_is_named) {
  const boost::mpi::communicator world;
  const auto refusal_without = [&](const Config& config,
                                   const std::function<bool(const std::string&)>& is_lost) {
    const Dumped dumped(config);
    dumped.lose(is_lost);
    return refusal_of(dumped);
  };
  const auto ends_with = [](const std::string& end) {
    return [end](const std::string& path) { return path.ends_with(end); };
  };
  Config config;
  config.micro_batch.mode = MicroBatchMode::fixed;
  config.micro_batch.size = 8;  // of 26 samples in all
  const std::string last = world.size() < 4 ? "mb-00001.safetensors" : "mb-00000.safetensors";
  EXPECT_THAT(refusal_without(config, ends_with(last)),
              HasSubstr(last + ": is missing, although the run wrote it"));
  for (const char* axis : {"cp-", "tp-", "pp-", "dp-"}) {
    if (world.size() == 1) continue;
    config.mesh = {};
    (axis[0] == 'c'   ? config.mesh.cp
     : axis[0] == 't' ? config.mesh.tp
                      : config.mesh.pp) = axis[0] == 'd' ? 1 : world.size();
    const std::string other = std::string("/") + axis + "001/";
    const auto is_lost = [&](const std::string& path) { return path.find(other) != std::string::npos; };
    EXPECT_THAT(refusal_without(config, is_lost), testing::AllOf(HasSubstr(other), HasSubstr("is missing")));
  }
  const Config flexible = flexible_config(world.size(), Strategy::grid);
  EXPECT_THAT(refusal_without(flexible, ends_with("data-000/tp-000/pp-000/mb-00000.safetensors")),
              testing::AnyOf(HasSubstr("is missing"),
                             HasSubstr("has no file of a micro-batch that is shared by ranks"),
                             HasSubstr("samples of step")));
}

TEST(DumpSource, refuses_swapped_files) {
  const boost::mpi::communicator world;
  const Dumped dumped(Config{});
  world.barrier();
  if (world.rank() == 0) {
    const std::filesystem::path rank = "dp-000/cp-000/tp-000/pp-000";
    std::filesystem::copy_file(dumped.source.path / "step-000000" / rank / "mb-00000.safetensors",
                               dumped.source.path / "step-000001" / rank / "mb-00000.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
  }
  world.barrier();
  EXPECT_THAT(refusal_of(dumped),
              testing::AllOf(HasSubstr("step-000001"), HasSubstr("does not match its location")));
}

TEST(DumpSource, refuses_files_without_metadata_as_an_older_version) {
  const Dumped dumped(Config{});
  dumped.damage("mb-", "\"evenkeel_dump\"", "\"evenkeel_dumb\"");
  EXPECT_THAT(refusal_of(dumped),
              testing::AllOf(HasSubstr("older version"), HasSubstr("Dump the job again")));
}

TEST(DumpSource, fingerprints_every_file_that_is_read) {
  const boost::mpi::communicator world;
  Config config;
  config.mesh.cp = world.size();
  const Dumped dumped(config);
  const SourceFingerprint before = open_source(world, dumped.source)->fingerprint(world);
  const std::string last = world.size() == 1 ? "cp-000" : "cp-001";
  world.barrier();
  if (world.rank() == 0) {
    const auto file = dumped.source.path / "step-000001/dp-000" / last / "tp-000/pp-000/mb-00000.safetensors";
    std::string content = testing_support::read_text(file);
    content.back() = static_cast<char>(content.back() + 1);
    write_text(file, content);
  }
  world.barrier();
  EXPECT_NE(open_source(world, dumped.source)->fingerprint(world), before);
}

TEST(DumpSource, offsets_that_do_not_match_rows_are_everybodys_error) {
  const Dumped dumped(Config{});
  // The list remains in the file, but under a meaningless name.
  dumped.damage("step-000001/dp-000/cp-000/tp-000/pp-000/mb-00000", "\"raw_offsets\"", "\"raw_0ffsets\"");
  EXPECT_THAT(refusal_of(dumped), HasSubstr("raw_offsets"));
}

TEST(DumpSource, metadata_that_contradict_tensors_are_everybodys_error) {
  Config config;
  config.fields["values"].layers = LayerMap{{{0, 1}}};
  const std::string layers = R"(\"layers\":[0,1])";
  for (const auto& [told, other] : {std::pair{layers, R"(\"layers\":[0,0])"},
                                    {layers, R"(\"layers\":[0,2])"},
                                    {layers, R"(\"layers\":[0,-])"},
                                    {layers, R"(\"layers\":[0  ])"},
                                    {layers, R"(\"layers\":3    )"},
                                    {std::string(R"(\"cut\":\"zigzag\")"), R"(\"cut\":\"zigzog\")"},
                                    {std::string(R"(\"kind\":\"sample\")"), R"(\"kind\":\"simple\")"},
                                    {std::string(R"(\"kind\":\"bytes\")"), R"(\"kind\":\"token\")"},
                                    {std::string(R"(\"dtype\":\"float64\")"), R"(\"dtype\":\"float16\")"},
                                    {std::string(R"(\"format\":1)"), R"(\"format\":2)"},
                                    {std::string(R"(\"micro_batch\":0)"), R"(\"micro_batch\":1)"},
                                    {std::string(R"(\"prompts\":[)"), R"(\"prompts\":{)"}}) {
    const Dumped dumped(config);
    dumped.damage("mb-00000", told, other);
    EXPECT_THAT(refusal_of(dumped), HasSubstr("mb-00000.safetensors: ")) << other;
  }
}

TEST(DumpSource, inconsistent_layers_are_an_error_on_every_rank) {
  const boost::mpi::communicator world;
  if (world.size() == 1) GTEST_SKIP() << "no two files of a micro-batch";
  Config config;
  config.mesh.cp = world.size();
  config.fields["values"].layers = LayerMap{{{0, 1}}};
  const Dumped dumped(config);
  dumped.damage("step-000001/dp-000/cp-001", R"(\"layers\":[0,1])", R"(\"layers\":[1,0])");
  EXPECT_THAT(refusal_of(dumped), testing::AllOf(HasSubstr("cp-001"), HasSubstr("different layers")));
}

TEST(DumpSource, a_damaged_file_is_everybodys_error) {
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
