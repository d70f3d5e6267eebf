#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"
#include "support/error_message.hpp"
#include "support/made_up_batch.hpp"

// Tests rows that are split with their samples' tokens (fields: {X: {cut_by: FIELD}}) in whole steps. The
// expected values are computed here from the tokens that each rank gets.

namespace evenkeel::cut_rows_test {
namespace {

using testing::HasSubstr;
using testing_support::message_of;
using testing_support::mix;

constexpr std::int64_t patch_bytes = 5;

struct CutJob {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  ExchangePath path = ExchangePath::automatic;
  PrefixSharing prefix = PrefixSharing::none;
  CpLayout layout = CpLayout::zigzag;
  bool flexible = false;
  MicroBatchMode mode = MicroBatchMode::packed;
  TensorParallelCopies copies = TensorParallelCopies::own;

  [[nodiscard]] bool fits(int ranks) const { return ranks % (tp * cp * pp) == 0; }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const int value :
         {tp, cp, pp, static_cast<int>(path), static_cast<int>(prefix), static_cast<int>(layout),
          static_cast<int>(flexible), static_cast<int>(mode), static_cast<int>(copies)})
      text += std::to_string(value) + " ";
    return text;
  }
};

Config cutting_config(const CutJob& job) {
  Config config;
  config.mesh.tp = job.tp;
  config.mesh.cp = job.cp;
  config.mesh.pp = job.pp;
  config.mesh.flexible_cp = job.flexible;
  if (job.flexible) config.balance.strategy = Strategy::hierarchical;
  config.exchange.path = job.path;
  config.exchange.tp_copies = job.copies;
  config.prefix = job.prefix;
  config.pack.cp_layout = job.layout;
  config.micro_batch.mode = job.mode;
  config.micro_batch.size = 2;
  config.micro_batch.max_tokens = job.cp % 2 == 0 || job.cp == 1 ? 128 : 512;
  if (job.flexible) config.micro_batch.max_tokens_per_rank = 16 + 112 / boost::mpi::communicator().size();
  config.fields["patches"].cut_by = "spans";
  for (const char* name : {"patches", "spans", "index"}) config.fields[name].stage = FieldStages::all;
  config.profiles["large"] = config.profile({});
  config.profiles["large"].micro_batch.size = 3;
  config.profiles["large"].micro_batch.max_tokens *= 2;
  config.profiles["other"] = config.profile({});
  config.profiles["other"].pack.align_lcm = 16;
  return config;
}

/// Returns the tokens that each row of a sample belongs to: overlapping rows, rows with the same tokens, rows
/// without tokens, samples without rows.
std::vector<RowRange> spans_of(const SampleShape& sample) {
  std::vector<RowRange> spans;
  const auto id = static_cast<std::uint64_t>(sample.id.value());
  RowRange tokens{static_cast<std::int64_t>(id % 3), static_cast<std::int64_t>(id % 3) + 1};
  for (std::uint64_t row = 0; id % 5 != 3; ++row) {
    tokens.begin += static_cast<std::int64_t>(mix(id, row, 1) % 4);
    tokens.end = std::max(tokens.end, tokens.begin + 1 + static_cast<std::int64_t>(mix(id, row, 2) % 6));
    if (tokens.end > sample.length()) break;
    spans.push_back(tokens);
  }
  return spans;
}

std::vector<std::byte> patch_of(SampleId sample, std::int64_t row) {
  std::vector<std::byte> bytes(patch_bytes);
  for (std::size_t b = 0; b < bytes.size(); ++b)
    bytes[b] = static_cast<std::byte>(
        mix(static_cast<std::uint64_t>(sample.value()), static_cast<std::uint64_t>(row), b));
  return bytes;
}

std::vector<SampleShape> shapes_with_patches(const boost::mpi::communicator& world) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 40; ++id) {
    const bool is_long = id % 13 == 0;
    if (id % world.size() == world.rank())
      shapes.push_back({SampleId{id}, static_cast<std::uint64_t>(id / 4), 6, is_long ? 80 : id % 11});
  }
  return shapes;
}

void add_patches(RaggedBatch& batch) {
  std::vector<std::int64_t> counts;
  for (const SampleShape& sample : batch.samples()) counts.push_back(std::ssize(spans_of(sample)));
  Column patches({"patches", DType::uint8, FieldKind::rows, {patch_bytes}}, SampleRows::from_counts(counts));
  Column spans({"spans", DType::int64, FieldKind::rows, {2}}, SampleRows::from_counts(counts));
  std::int64_t next = 0;
  for (const SampleShape& sample : batch.samples()) {
    for (const RowRange& tokens : spans_of(sample)) {
      std::ranges::copy(patch_of(sample.id, next - patches.samples()[&sample - batch.samples().data()].begin),
                        patches.row(next));
      spans.values<std::int64_t>()[static_cast<std::size_t>(2 * next)] = tokens.begin;
      spans.values<std::int64_t>()[static_cast<std::size_t>(2 * next + 1)] = tokens.end;
      ++next;
    }
  }
  batch.add_field(std::move(patches));
  batch.add_field(std::move(spans));
}

/// Returns samples with their tokens. Samples of a group start with the same tokens; `index` contains each
/// token's position in its sample, from 1.
RaggedBatch tokens_of(const boost::mpi::communicator& world) {
  RaggedBatch batch(shapes_with_patches(world));
  Column& tokens = batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  Column index({"index", DType::int64, FieldKind::token, {}}, batch.rows_of(FieldKind::token));
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    for (std::int64_t t = 0; t < rows.size(); ++t) {
      const auto at = static_cast<std::size_t>(rows.begin + t);
      tokens.values<std::int64_t>()[at] =
          t < sample.prompt + 2 ? static_cast<std::int64_t>(sample.group) : 100 + sample.id.value();
      index.values<std::int64_t>()[at] = t + 1;
    }
  }
  batch.add_field(std::move(index));
  return batch;
}

RaggedBatch patches_of(const boost::mpi::communicator& world) {
  RaggedBatch batch = tokens_of(world);
  add_patches(batch);
  return batch;
}

/// Returns the tokens of sample i that this rank has, according to its rows.
std::set<std::int64_t> tokens_here(const PackedMicroBatch& m, std::int64_t i) {
  std::vector<std::int64_t> sequences{i};
  if (m.shared) {
    const PrefixTree& tree = m.shared->tree.tree();
    sequences = tree.path_to(tree.sample_end(i));
  }
  std::set<std::int64_t> tokens;
  for (const std::int64_t sequence : sequences) {
    const RowRange rows = m.layout.local_range(sequence);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::int64_t index = m.find("index")->values<std::int64_t>()[static_cast<std::size_t>(row)];
      if (index > 0) tokens.insert(index - 1);
    }
  }
  return tokens;
}

/// Checks that each sample's rows belong to its tokens on this rank. Returns the total number of rows.
std::int64_t expect_rows_of_tokens_here(const Step& step) {
  std::int64_t rows = 0;
  for (const MicroBatch& micro_batch : step.micro_batches) {
    const PackedMicroBatch& m = micro_batch.tensors;
    const Column& patches = *m.find("patches");
    const Column& spans = *m.find("spans");
    EXPECT_EQ(patches.samples(), spans.samples());
    EXPECT_EQ(patches.samples().size(), std::ssize(m.samples));
    for (std::int64_t i = 0; i < std::ssize(m.samples); ++i) {
      const SampleShape& sample = m.samples[static_cast<std::size_t>(i)];
      std::int64_t row = patches.samples()[i].begin;
      if (sample.id != filler_sample) {
        const std::set<std::int64_t> here = tokens_here(m, i);
        const std::vector<RowRange> of_sample = spans_of(sample);
        for (std::size_t r = 0; r < of_sample.size(); ++r) {
          const auto first = here.lower_bound(of_sample[r].begin);
          if (first == here.end() || *first >= of_sample[r].end) continue;
          if (row == patches.samples()[i].end) {
            ADD_FAILURE() << "row " << r << " of sample " << sample.id.value() << " is missing";
            return rows;
          }
          const std::vector<std::byte> patch = patch_of(sample.id, static_cast<std::int64_t>(r));
          EXPECT_EQ(std::memcmp(patches.row(row), patch.data(), patch.size()), 0);
          EXPECT_EQ(std::memcmp(spans.row(row), &of_sample[r], sizeof(RowRange)), 0);
          ++row;
        }
      }
      EXPECT_EQ(row, patches.samples()[i].end)
          << "more rows than sample " << sample.id.value() << " has here";
    }
    rows += patches.rows();
  }
  return rows;
}

void expect_whole_cut_job(const CutJob& job) {
  const boost::mpi::communicator world;
  if (!job.fits(world.size())) return;
  const testing::ScopedTrace trace(__FILE__, __LINE__, job.text());
  DataService service(world, cutting_config(job));
  Step step = service.step(patches_of(world));
  const std::int64_t rows = expect_rows_of_tokens_here(step);
  if (job.tp * job.pp == 1) {
    const auto volume = std::ranges::find(step.record->volumes, "patches", &FieldVolume::name);
    ASSERT_NE(volume, step.record->volumes.end());
    EXPECT_EQ(volume->received, rows * patch_bytes);
    EXPECT_TRUE(volume->changed);
  }
  for (const char* profile : {"", "large", "other"}) {
    step = service.step(std::move(step), profile);
    expect_rows_of_tokens_here(step);
  }
}

TEST(CutRows, are_sent_to_the_ranks_of_their_tokens_on_every_mesh) {
  for (const int cp : {1, 2, 3, 4, 7, 8}) {
    for (const CpLayout layout : {CpLayout::zigzag, CpLayout::contiguous})
      expect_whole_cut_job({.cp = cp, .layout = layout});
    expect_whole_cut_job({.cp = cp, .mode = MicroBatchMode::padded});
  }
  expect_whole_cut_job({.tp = 2, .cp = 2});
  expect_whole_cut_job({.tp = 2, .cp = 2, .copies = TensorParallelCopies::shared});
  expect_whole_cut_job({.cp = 2, .pp = 2});
}

TEST(CutRows, work_on_every_path_with_shared_prefixes_and_flexible_groups) {
  for (const ExchangePath path : {ExchangePath::point_to_point, ExchangePath::alltoallv})
    expect_whole_cut_job({.cp = 2, .path = path});
  for (const PrefixSharing prefix : {PrefixSharing::prompts, PrefixSharing::trees}) {
    expect_whole_cut_job({.cp = 2, .prefix = prefix});
    expect_whole_cut_job({.cp = 4, .prefix = prefix, .layout = CpLayout::contiguous});
  }
  const int ranks = boost::mpi::communicator().size();
  if ((ranks & (ranks - 1)) == 0) expect_whole_cut_job({.flexible = true});
}

TEST(CutRows, may_be_added_to_a_later_pass_with_their_token_ranges) {
  const boost::mpi::communicator world;
  DataService service(world, cutting_config(CutJob{.cp = world.size() % 2 == 0 ? 2 : 1}));
  Step step = service.step(tokens_of(world));
  RaggedBatch added(shapes_with_patches(world));
  add_patches(added);
  step = service.step(std::move(step), "", added);
  expect_rows_of_tokens_here(step);
  for (const char* profile : {"large", "other"}) {
    step = service.step(std::move(step), profile);
    expect_rows_of_tokens_here(step);
  }
}

TEST(CutRows, are_refused_on_every_rank_if_one_rank_lacks_their_token_ranges) {
  const boost::mpi::communicator world;
  const auto refusal = [&](const std::function<void(RaggedBatch&)>& spoil) {
    DataService service(world, cutting_config(CutJob{}));
    RaggedBatch batch = patches_of(world);
    if (world.rank() == world.size() - 1) spoil(batch);
    const std::string why = message_of([&] { (void)service.step(std::move(batch)); });
    EXPECT_NO_THROW(expect_rows_of_tokens_here(service.step(patches_of(world)))) << "the service goes on";
    return why;
  };
  EXPECT_THAT(refusal([](RaggedBatch& batch) { batch.find("spans")->values<std::int64_t>()[0] = 1000; }),
              HasSubstr("field 'spans' of sample "));
  const auto shorter = [](RaggedBatch& batch) {
    const std::vector<std::int64_t> none(static_cast<std::size_t>(batch.size()));
    *batch.find("spans") =
        Column({"spans", DType::int64, FieldKind::rows, {2}}, SampleRows::from_counts(none));
  };
  EXPECT_THAT(refusal(shorter), HasSubstr(", but 'spans' (fields.patches.cut_by) has 0"));
}

TEST(CutRows, stay_together_with_their_token_ranges) {
  const boost::mpi::communicator world;
  DataService service(world, cutting_config(CutJob{}));
  RaggedBatch added(shapes_with_patches(world));
  add_patches(added);
  for (const char* name : {"patches", "spans"}) {
    RaggedBatch one{{added.samples().begin(), added.samples().end()}};
    one.add_field(added.at(name));
    const std::string why = message_of([&] { (void)service.step(service.step(patches_of(world)), "", one); });
    EXPECT_THAT(
        why,
        HasSubstr(name == std::string("spans")
                      ? "field 'spans': determines how 'patches' is cut, but only one of the two is replaced"
                      : "field 'patches': is cut by 'spans', which was not provided with it"));
  }
}

TEST(CutRows, cannot_be_results_of_the_first_rank) {
  const boost::mpi::communicator world;
  DataService service(world, cutting_config(CutJob{}));
  const Step step = service.step(patches_of(world));
  for (const char* name : {"patches", "spans"}) {
    StepResults results(step.micro_batches.size());
    for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
      const std::vector<std::int64_t> counts(step.micro_batches[m].tensors.samples.size());
      results.put(m, {name, DType::int64, FieldKind::rows, {}}, counts, {});
    }
    EXPECT_THAT(message_of([&] { (void)service.collect(step, results); }),
                HasSubstr("result '" + std::string(name) + "': has rows that are split over"));
  }
}

}  // namespace
}  // namespace evenkeel::cut_rows_test
