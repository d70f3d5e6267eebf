#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <boost/serialization/vector.hpp>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"
#include "support/made_up_batch.hpp"

// Tests fields whose equal values are stored once per node in whole steps: each sample has its own value, and
// data is sent and stored as often as documented. The expected values are computed here from the samples
// alone.

namespace evenkeel::equal_values_test {
namespace {

using testing::HasSubstr;
using testing_support::mix;

// An image is in the shared heap, like all large columns.
constexpr std::int64_t row_bytes = 6000;

struct EqualJob {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  ExchangePath path = ExchangePath::automatic;
  FieldStages stage = FieldStages::last;
  TensorParallelCopies copies = TensorParallelCopies::own;
  PrefixSharing prefix = PrefixSharing::none;

  [[nodiscard]] bool fits(int ranks) const { return ranks % (tp * cp * pp) == 0; }
  [[nodiscard]] bool delivers(const GridPoint& place) const {
    if (stage == FieldStages::all) return true;
    return place.pp == (stage == FieldStages::first ? 0 : pp - 1);
  }
};

Config config_of(const EqualJob& job) {
  Config config;
  config.mesh.tp = job.tp;
  config.mesh.cp = job.cp;
  config.mesh.pp = job.pp;
  config.exchange.path = job.path;
  config.exchange.tp_copies = job.copies;
  config.prefix = job.prefix;
  config.micro_batch.max_tokens = 64;
  for (const char* name : {"image", "caption"}) {
    config.fields[name].share = FieldSharing::equal;
    config.fields[name].stage = job.stage;
  }
  config.profiles["large"] = config.profile({});
  config.profiles["large"].micro_batch.max_tokens = 128;
  config.profiles["other"] = config.profile({});
  config.profiles["other"].pack.align_lcm = 16;
  return config;
}

/// Returns the number of a sample's image. Samples of a group of 8 share one image; every fifth group has
/// none.
std::int64_t image_of(SampleId sample) {
  return sample.value() / 8;
}
std::int64_t rows_of_image(SampleId sample) {
  return image_of(sample) % 5 == 4 ? 0 : 12 + image_of(sample) % 3;
}
std::byte pixel_of(SampleId sample, std::int64_t row) {
  return static_cast<std::byte>(
      mix(static_cast<std::uint64_t>(image_of(sample)), static_cast<std::uint64_t>(row)));
}
std::string caption_of(SampleId sample) {
  return "image " + std::to_string(image_of(sample) % 3);
}

constexpr std::int64_t num_samples = 48;

/// Returns samples of groups that are supplied by one rank each, or that are scattered over all ranks.
RaggedBatch images_of(const boost::mpi::communicator& world, bool strewn = true) {
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < num_samples; ++id) {
    const std::int64_t owner = strewn ? id : id / 8;
    if (owner % world.size() != world.rank()) continue;
    shapes.push_back({SampleId{id}, static_cast<std::uint64_t>(id / 8), 5, 1 + id % 7});
  }
  RaggedBatch batch(std::move(shapes));
  Column& tokens = batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  std::vector<std::int64_t> image_rows;
  std::vector<std::int64_t> caption_rows;
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    for (std::int64_t t = rows.begin; t < rows.end; ++t) {
      const bool is_prompt = t - rows.begin < sample.prompt;
      tokens.values<std::int64_t>()[static_cast<std::size_t>(t)] =
          is_prompt ? static_cast<std::int64_t>(sample.group) : sample.id.value();
    }
    image_rows.push_back(rows_of_image(sample.id));
    caption_rows.push_back(std::ssize(caption_of(sample.id)));
  }
  Column images({"image", DType::uint8, FieldKind::rows, {row_bytes}}, SampleRows::from_counts(image_rows));
  Column captions({"caption", DType::uint8, FieldKind::text, {}}, SampleRows::from_counts(caption_rows));
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleId id = batch.samples()[static_cast<std::size_t>(i)].id;
    const RowRange image = images.samples()[i];
    for (std::int64_t row = image.begin; row < image.end; ++row)
      std::fill_n(images.row(row), row_bytes, pixel_of(id, row - image.begin));
    const std::string caption = caption_of(id);
    std::ranges::copy(std::as_bytes(std::span(caption)), captions.row(captions.samples()[i].begin));
  }
  batch.add_field(std::move(images));
  batch.add_field(std::move(captions));
  return batch;
}

void expect_image(const Column& images, std::int64_t i, SampleId id) {
  const RowRange rows = images.samples()[i];
  ASSERT_EQ(rows.size(), id == filler_sample ? 0 : rows_of_image(id)) << "sample " << id.value();
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::span<const std::byte> pixels(images.row(row), row_bytes);
    ASSERT_TRUE(std::ranges::all_of(pixels, [&](std::byte p) { return p == pixel_of(id, row - rows.begin); }))
        << "sample " << id.value();
  }
}

void expect_caption(const Column& captions, std::int64_t i, SampleId id) {
  const RowRange rows = captions.samples()[i];
  const std::string caption(reinterpret_cast<const char*>(captions.row(rows.begin)),
                            static_cast<std::size_t>(rows.size()));
  ASSERT_EQ(caption, id == filler_sample ? "" : caption_of(id));
}

/// Requires that every sample has its value, and that all micro-batches of a rank use the same memory.
void expect_values_delivered(const Step& step, const EqualJob& job, const GridPoint& here) {
  const std::byte* memory = nullptr;
  for (const MicroBatch& micro_batch : step.micro_batches) {
    const PackedMicroBatch& m = micro_batch.tensors;
    const Column* const images = m.find("image");
    const Column* const captions = m.find("caption");
    ASSERT_EQ(images != nullptr, job.delivers(here));
    ASSERT_EQ(captions != nullptr, job.delivers(here));
    if (images == nullptr) continue;
    ASSERT_TRUE(images->samples().are_shared());
    ASSERT_EQ(images->samples().size(), std::ssize(m.samples));
    for (std::int64_t i = 0; i < std::ssize(m.samples); ++i) {
      expect_image(*images, i, m.samples[static_cast<std::size_t>(i)].id);
      expect_caption(*captions, i, m.samples[static_cast<std::size_t>(i)].id);
    }
    if (memory == nullptr) memory = images->bytes().data();
    EXPECT_EQ(images->bytes().data(), memory);
    EXPECT_TRUE(images->is_borrowed() || images->bytes().empty());
  }
}

/// A rank's node, and the samples with images that the rank gets.
struct RankSamples {
  int node = 0;
  bool handed = false;
  std::vector<std::int64_t> ids;

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& node& handed& ids;
  }
};

std::vector<RankSamples> samples_of_ranks(const Step& step, const EqualJob& job, const Mesh& mesh) {
  RankSamples mine{mesh.nodes()[mesh.rank().index()], job.delivers(mesh.here()), {}};
  for (const MicroBatch& m : step.micro_batches) {
    for (const SampleShape& sample : m.tensors.samples) {
      if (sample.id != filler_sample) mine.ids.push_back(sample.id.value());
    }
  }
  std::vector<RankSamples> all;
  boost::mpi::all_gather(boost::mpi::communicator(), mine, all);
  return all;
}

/// Returns the total size of the distinct images of samples; images of different owners are distinct.
std::int64_t distinct_bytes(const std::vector<std::int64_t>& ids, int owners) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> rows;
  for (const std::int64_t id : ids) rows[{id % owners, image_of(SampleId{id})}] = rows_of_image(SampleId{id});
  std::int64_t bytes = 0;
  for (const auto& value : rows) bytes += value.second * row_bytes;
  return bytes;
}

FieldVolume volume_of(const Step& step, const char* name) {
  const auto found = std::ranges::find(step.record->volumes, name, &FieldVolume::name);
  return found == step.record->volumes.end() ? FieldVolume{} : *found;
}

/// Requires that each distinct image of an owner is sent once to each node, to the lowest rank that needs it.
/// Other ranks of the node copy theirs, or copy nothing if ranks read each other's memory.
void expect_volume(const Step& step, const EqualJob& job, const Mesh& mesh) {
  const boost::mpi::communicator world;
  const std::vector<RankSamples> all = samples_of_ranks(step, job, mesh);
  const RankSamples& mine = all[static_cast<std::size_t>(world.rank())];
  std::vector<std::int64_t> of_node;
  int holder = -1;
  for (int rank = world.size() - 1; rank >= 0; --rank) {
    const RankSamples& other = all[static_cast<std::size_t>(rank)];
    if (other.node != mine.node || !other.handed) continue;
    holder = rank;
    of_node.insert(of_node.end(), other.ids.begin(), other.ids.end());
  }
  const FieldVolume volume = volume_of(step, "image");
  EXPECT_EQ(volume.received, holder == world.rank() ? distinct_bytes(of_node, world.size()) : 0);
  const bool reads = job.path == ExchangePath::automatic || job.path == ExchangePath::shared_memory;
  const bool copies = mine.handed && holder != world.rank() && !reads;
  EXPECT_EQ(volume.copied, copies ? distinct_bytes(mine.ids, world.size()) : 0);

  // The total received by all ranks equals the total sent or kept by all ranks.
  std::int64_t got = 0;
  std::int64_t copied = 0;
  for (const FieldVolume& of_field : step.record->volumes) {
    got += of_field.received;
    copied += of_field.copied;
  }
  EXPECT_EQ(boost::mpi::all_reduce(world, got, std::plus<>()),
            boost::mpi::all_reduce(world, step.volume.sent + step.volume.kept, std::plus<>()));
  EXPECT_EQ(copied, step.volume.copied);
}

/// Delivers values, reuses them in a later pass, repacks them on each rank, and sends them again.
void expect_whole_equal_job(const EqualJob& job) {
  const boost::mpi::communicator world;
  if (!job.fits(world.size())) return;
  const testing::ScopedTrace trace(__FILE__, __LINE__,
                                   "tp " + std::to_string(job.tp) + " cp " + std::to_string(job.cp) + " pp " +
                                       std::to_string(job.pp) + " path " +
                                       std::to_string(static_cast<int>(job.path)) + " stage " +
                                       std::to_string(static_cast<int>(job.stage)) + " copies " +
                                       std::to_string(static_cast<int>(job.copies)) + " prefix " +
                                       std::to_string(static_cast<int>(job.prefix)));
  DataService service(world, config_of(job));
  const GridPoint& here = service.mesh().here();
  Step step = service.step(images_of(world));
  expect_values_delivered(step, job, here);
  expect_volume(step, job, service.mesh());
  for (const char* profile : {"", "large", "other"}) {
    step = service.step(std::move(step), profile);
    expect_values_delivered(step, job, here);
  }
}

TEST(EqualValues, are_sent_once_per_node_on_every_mesh) {
  for (const FieldStages stage : {FieldStages::last, FieldStages::first, FieldStages::all}) {
    for (const int tp : {1, 2})
      for (const int cp : {1, 2})
        for (const int pp : {1, 2}) {
          if (pp > 1 || stage == FieldStages::last)
            expect_whole_equal_job({tp, cp, pp, ExchangePath::automatic, stage});
        }
  }
}

TEST(EqualValues, are_sent_once_on_every_path_with_shared_tensors_and_prefixes) {
  for (const ExchangePath path :
       {ExchangePath::shared_memory, ExchangePath::point_to_point, ExchangePath::alltoallv}) {
    for (const auto copies : {TensorParallelCopies::own, TensorParallelCopies::shared}) {
      for (EqualJob job : {EqualJob{2, 1, 2}, EqualJob{1, 2, 1}, EqualJob{2, 1, 1}, EqualJob{1, 1, 1}}) {
        if (job.tp == 1 && copies == TensorParallelCopies::shared) continue;
        job.path = path;
        job.copies = copies;
        job.prefix = job.cp > 1 ? PrefixSharing::none : PrefixSharing::prompts;
        expect_whole_equal_job(job);
      }
    }
  }
}

TEST(EqualValues, of_a_group_of_8_take_the_bytes_of_one_per_node) {
  const boost::mpi::communicator world;
  DataService service(world, config_of({}));
  const std::span<const int> nodes = service.mesh().nodes();
  if (std::ranges::any_of(nodes, [&](int node) { return node != nodes.front(); })) return;
  const auto bytes_in_all = [&](const Config& config) {
    const Step step = DataService(world, config).step(images_of(world, /*strewn=*/false));
    return boost::mpi::all_reduce(world, volume_of(step, "image").received, std::plus<>());
  };
  std::int64_t one_each = 0;
  for (std::int64_t id = 0; id < num_samples; id += 8) one_each += rows_of_image(SampleId{id}) * row_bytes;
  EXPECT_EQ(bytes_in_all(config_of({})), one_each);
  Config apart = config_of({});
  apart.fields["image"].share = FieldSharing::none;
  EXPECT_EQ(bytes_in_all(apart), 8 * one_each);
}

TEST(EqualValues, written_on_one_rank_are_private_and_cannot_be_regrouped) {
  const boost::mpi::communicator world;
  DataService service(world, config_of({}));
  for (int writer = 0; writer < world.size(); ++writer) {
    Step step = service.step(images_of(world));
    world.barrier();
    if (writer == world.rank())
      std::ranges::fill(step.micro_batches.back().tensors.find("image")->bytes(), std::byte{9});
    world.barrier();
    if (writer != world.rank()) expect_values_delivered(step, {}, service.mesh().here());
    // A writer with only one micro-batch, or with one without samples, has nothing to distinguish.
    bool differs = step.micro_batches.size() > 1 && !step.micro_batches.back().tensors.empty();
    boost::mpi::broadcast(world, differs, writer);
    try {
      step = service.step(std::move(step), "large");
      EXPECT_FALSE(differs) << "is not refused";
      if (writer != world.rank()) expect_values_delivered(step, {}, service.mesh().here());
    } catch (const InputError& error) {
      EXPECT_TRUE(differs);
      EXPECT_THAT(error.what(), HasSubstr("field 'image' of micro-batch"));
      EXPECT_THAT(error.what(), HasSubstr("was modified"));
    }
  }
}

TEST(EqualValues, may_be_added_to_a_later_pass_and_reused_after_it) {
  const boost::mpi::communicator world;
  DataService service(world, config_of({}));
  RaggedBatch whole = images_of(world);
  const std::vector<SampleShape> shapes(whole.samples().begin(), whole.samples().end());
  RaggedBatch first(shapes);
  first.add_field(whole.at("input_ids"));
  RaggedBatch added(shapes);
  for (const char* name : {"image", "caption"}) added.add_field(whole.at(name));
  Step step = service.step(std::move(first));
  step = service.step(std::move(step), "large", added);
  expect_values_delivered(step, {}, service.mesh().here());
  step = service.step(std::move(step), {});
  expect_values_delivered(step, {}, service.mesh().here());
}

TEST(EqualValues, outlive_the_release_by_their_holders) {
  const boost::mpi::communicator world;
  std::vector<Step> held;
  DataService service(world, config_of({}));
  for (int round = 0; round < 4; ++round) {
    Step step = service.step(images_of(world));
    const bool is_holder = volume_of(step, "image").received > 0;
    if (!is_holder) held.push_back(std::move(step));
  }
  world.barrier();
  for (const Step& step : held) expect_values_delivered(step, {}, service.mesh().here());
}

TEST(EqualValues, are_refused_by_name_for_kinds_without_counted_rows) {
  const boost::mpi::communicator world;
  Config config;
  config.fields["x"].share = FieldSharing::equal;
  DataService service(world, config);
  for (const FieldKind kind : {FieldKind::token, FieldKind::response_token, FieldKind::sample}) {
    RaggedBatch batch({{SampleId{world.rank()}, 7, 2, 3}});
    batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
    batch.add_field({"x", DType::int16, kind, {2}});
    try {
      (void)service.step(std::move(batch));
      ADD_FAILURE() << "is not refused";
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("field 'x'"));
      EXPECT_THAT(error.what(), HasSubstr("Set fields.x.share: none"));
    }
  }
}

}  // namespace
}  // namespace evenkeel::equal_values_test
