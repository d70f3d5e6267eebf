#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "batch/integers.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"
#include "support/made_up_batch.hpp"
#include "support/packed_rows.hpp"

// Fields of layers, through whole steps: each pipeline stage is handed its own layers of its own rows, bit
// for bit, and no byte more than that travels. What is expected is worked out here from the samples alone.

namespace evenkeel::layered_fields_test {
namespace {

using testing::HasSubstr;
using testing_support::mix;
using testing_support::packed_rows_of;
using testing_support::PackedRow;

constexpr std::int64_t layers = 24;
constexpr std::int64_t per_layer = 3;

struct Job {
  int tp = 1;
  int cp = 1;
  int pp = 1;
  int vpp = 1;
  ExchangePath path = ExchangePath::automatic;
  TensorParallelCopies copies = TensorParallelCopies::own;
  PrefixSharing sharing = PrefixSharing::none;
  FieldWidth wire = FieldWidth::as_brought;
  FieldWidth hand_out = FieldWidth::as_brought;
  std::int64_t most = 200;  ///< elements are from 0 to this
  std::int64_t least = 0;

  [[nodiscard]] bool fits(int ranks) const { return ranks % (tp * cp * pp) == 0; }
  [[nodiscard]] bool shared() const { return sharing != PrefixSharing::none; }
};

std::string text_of(const Job& job) {
  return "tp " + std::to_string(job.tp) + " cp " + std::to_string(job.cp) + " pp " + std::to_string(job.pp) +
         " vpp " + std::to_string(job.vpp) + " path " + std::to_string(static_cast<int>(job.path)) +
         " copies " + std::to_string(static_cast<int>(job.copies)) + " sharing " +
         std::to_string(static_cast<int>(job.sharing)) + " wire " +
         std::to_string(static_cast<int>(job.wire));
}

Config config_of(const Job& job) {
  Config config;
  config.mesh.tp = job.tp;
  config.mesh.cp = job.cp;
  config.mesh.pp = job.pp;
  config.mesh.vpp = job.vpp;
  config.exchange.path = job.path;
  config.exchange.tp_copies = job.copies;
  config.prefix = job.sharing;
  config.micro_batch.max_tokens = 96;
  config.fields["experts"] = {LayerMap{}, job.wire, job.hand_out};
  config.fields["router"] = {LayerMap{}, FieldWidth::as_brought, FieldWidth::as_brought};
  config.profiles["large"] = config.profile({});
  config.profiles["large"].micro_batch.max_tokens = 256;
  config.profiles["other"] = config.profile({});
  config.profiles["other"].pack.align_lcm = 16;
  return config;
}

/// Whose a token is: samples of a group have their prompt in common.
std::uint64_t owner_of(const SampleShape& sample, std::int64_t t) {
  return t < sample.prompt ? 1000 + sample.group : static_cast<std::uint64_t>(sample.id.value());
}

std::int64_t element(const Job& job, const SampleShape& sample, std::int64_t t, std::int64_t layer,
                     std::int64_t e) {
  const std::uint64_t drawn = mix(owner_of(sample, t), static_cast<std::uint64_t>(t),
                                  static_cast<std::uint64_t>(layer * per_layer + e));
  return job.least + static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(job.most - job.least + 1));
}

/// The router's outputs: bits of one float for each layer.
float router(const SampleShape& sample, std::int64_t response_token, std::int64_t layer) {
  return static_cast<float>(mix(static_cast<std::uint64_t>(sample.id.value()),
                                static_cast<std::uint64_t>(response_token),
                                static_cast<std::uint64_t>(layer)) %
                            100000);
}

SampleShape shape_of(std::int64_t id) {
  const std::uint64_t group = static_cast<std::uint64_t>(id) / 3;
  const bool nothing = id % 7 == 6;
  return {SampleId{id}, group, nothing ? 0 : static_cast<std::int64_t>(mix(group, 1) % 20),
          nothing ? 0 : static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(id), 2) % 30)};
}

/// The samples of a rank: the last of several has none.
RaggedBatch share_of(const boost::mpi::communicator& world, const Job& job) {
  const int owners = std::max(1, world.size() - 1);
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 20; ++id)
    if (id % owners == world.rank()) shapes.push_back(shape_of(id));
  RaggedBatch batch(std::move(shapes));
  auto tokens =
      batch.add_field({"input_ids", DType::int64, FieldKind::token, {}}).values<std::int64_t>().begin();
  auto experts = batch.add_field({"experts", DType::int16, FieldKind::token, {layers, per_layer}})
                     .values<std::int16_t>()
                     .begin();
  auto routed = batch.add_field({"router", DType::float32, FieldKind::response_token, {layers}})
                    .values<float>()
                    .begin();
  for (const SampleShape& sample : batch.samples()) {
    for (std::int64_t t = 0; t < sample.length(); ++t) {
      *tokens++ = static_cast<std::int64_t>(mix(owner_of(sample, t), static_cast<std::uint64_t>(t)) % 1000);
      for (std::int64_t layer = 0; layer < layers; ++layer) {
        for (std::int64_t e = 0; e < per_layer; ++e)
          *experts++ = static_cast<std::int16_t>(element(job, sample, t, layer, e));
        if (t >= sample.prompt) *routed++ = router(sample, t - sample.prompt, layer);
      }
    }
  }
  return batch;
}

/// As Megatron-Core numbers them.
std::vector<std::int64_t> layers_of(const Job& job, int stage) {
  std::vector<std::int64_t> of_stage;
  const std::int64_t in_part = layers / job.pp / job.vpp;
  for (int part = 0; part < job.vpp; ++part)
    for (std::int64_t i = 0; i < in_part; ++i) of_stage.push_back((part * job.pp + stage) * in_part + i);
  return of_stage;
}

std::int64_t integer_at(const Column& column, std::size_t at) {
  return with_integer_type(column.spec().dtype, [&]<typename T>(T value) {
    std::memcpy(&value, column.bytes().data() + at * sizeof(T), sizeof(T));
    return static_cast<std::int64_t>(value);
  });
}

void expect_experts(const Column& column, const std::vector<PackedRow>& rows, const Job& job,
                    const std::vector<std::int64_t>& mine) {
  ASSERT_EQ(column.spec().trailing, (std::vector{std::ssize(mine), per_layer}));
  ASSERT_EQ(column.rows(), std::ssize(rows));
  std::size_t at = 0;
  for (const PackedRow& row : rows) {
    for (const std::int64_t layer : mine) {
      for (std::int64_t e = 0; e < per_layer; ++e) {
        const std::int64_t expected = row.sample == nullptr ? 0 : element(job, *row.sample, row.t, layer, e);
        ASSERT_EQ(integer_at(column, at++), expected) << "layer " << layer;
      }
    }
  }
}

void expect_router(const Column& column, const PackedMicroBatch& m, const std::vector<PackedRow>& rows,
                   const Job& job, const std::vector<std::int64_t>& mine) {
  ASSERT_EQ(column.spec().trailing, (std::vector{std::ssize(mine)}));
  const auto values = column.values<float>();
  const auto expect_row = [&](std::int64_t row, const SampleShape* sample, std::int64_t label) {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      const bool is_response = sample != nullptr && sample->prompt <= label && label < sample->length();
      ASSERT_EQ(values[static_cast<std::size_t>(row) * mine.size() + i],
                is_response ? router(*sample, label - sample->prompt, mine[i]) : 0.0F);
    }
  };
  if (!job.shared()) {
    for (std::size_t row = 0; row < rows.size(); ++row)
      expect_row(static_cast<std::int64_t>(row), rows[row].sample, rows[row].t + 1);
    return;
  }
  const auto predicting = m.find("prediction_rows")->values<std::int64_t>();
  for (std::size_t i = 0; i < m.samples.size(); ++i) {
    for (std::int64_t p = m.shared->prediction_offsets[i]; p < m.shared->prediction_offsets[i + 1]; ++p) {
      const auto row = static_cast<std::size_t>(predicting[static_cast<std::size_t>(p)]);
      expect_row(p, &m.samples[i], rows[row].t + 1);
    }
  }
}

void expect_handed_out(const Step& step, const Job& job, const GridPoint& here, DType experts) {
  const std::vector<std::int64_t> mine = layers_of(job, here.pp);
  for (const MicroBatch& micro_batch : step.micro_batches) {
    const PackedMicroBatch& m = micro_batch.tensors;
    const std::vector<PackedRow> rows = packed_rows_of(m);
    const Column* const column = m.find("experts");
    ASSERT_NE(column, nullptr);
    ASSERT_EQ(column->spec().dtype, experts);
    expect_experts(*column, rows, job, mine);
    ASSERT_NE(m.find("router"), nullptr);
    expect_router(*m.find("router"), m, rows, job, mine);
    EXPECT_EQ(m.find("advantages"), nullptr);
    EXPECT_EQ(m.find("labels") != nullptr, here.pp == job.pp - 1 || here.pp == 0);
  }
}

std::int64_t true_rows(const Step& step) {
  std::int64_t count = 0;
  for (const MicroBatch& m : step.micro_batches)
    for (const PackedRow& row : packed_rows_of(m.tensors)) count += row.sample != nullptr ? 1 : 0;
  return count;
}

std::int64_t all_rows(const Step& step) {
  std::int64_t count = 0;
  for (const MicroBatch& m : step.micro_batches) count += m.tensors.layout.local_rows();
  return count;
}

/// The lowest rank of this one's node that has the same rows of the same stage.
int receiver_of(const Mesh& mesh) {
  for (int rank = 0; rank < mesh.grid().num_ranks(); ++rank) {
    GridPoint place = mesh.grid().point_of(WorldRank{rank});
    place.tp = mesh.here().tp;
    if (place == mesh.here() &&
        mesh.nodes()[static_cast<std::size_t>(rank)] == mesh.nodes()[mesh.rank().index()])
      return rank;
  }
  return -1;
}

/// Exactly the bytes of the layers that are this stage's, of the tokens that are this rank's.
void expect_volume(const Step& step, const Job& job, const Mesh& mesh, DType wire) {
  const auto& volumes = step.record->volumes;
  const auto found = std::ranges::find(volumes, "experts", &FieldVolume::name);
  ASSERT_NE(found, volumes.end());
  const FieldVolume& volume = *found;
  const std::int64_t row_bytes = layers / job.pp * per_layer * static_cast<std::int64_t>(size_of(wire));
  const bool receives = receiver_of(mesh) == mesh.rank().value();
  EXPECT_EQ(volume.received, receives ? true_rows(step) * row_bytes : 0);
  // Ranks whose tensors are in common copy nothing.
  const bool copies = !receives && job.copies == TensorParallelCopies::own;
  EXPECT_EQ(volume.copied, copies ? all_rows(step) * row_bytes : 0);

  // What all ranks get is what all ranks have sent or kept.
  std::int64_t got = 0;
  for (const FieldVolume& of_field : volumes) got += of_field.received;
  const boost::mpi::communicator world;
  EXPECT_EQ(boost::mpi::all_reduce(world, got, std::plus<>()),
            boost::mpi::all_reduce(world, step.volume.sent + step.volume.kept, std::plus<>()));
  std::int64_t copied = 0;
  for (const FieldVolume& of_field : volumes) copied += of_field.copied;
  EXPECT_EQ(copied, step.volume.copied);
}

/// Whether every rank reads what it gets where its owner has it, so that nothing is sent in messages.
bool moves_without_messages(const Job& job, const Mesh& mesh) {
  if (mesh.grid().num_ranks() == 1) return true;
  const auto is_elsewhere = [&](int node) { return node != mesh.nodes().front(); };
  return std::ranges::none_of(mesh.nodes(), is_elsewhere) &&
         (job.path == ExchangePath::automatic || job.path == ExchangePath::shared_memory);
}

/// `narrow` is the smallest type that holds the field's elements.
void expect_whole_job(const Job& job, DType narrow) {
  const boost::mpi::communicator world;
  if (!job.fits(world.size())) return;
  const testing::ScopedTrace trace(__FILE__, __LINE__, text_of(job));
  DataService service(world, config_of(job));
  const GridPoint& here = service.mesh().here();
  const DType handed_out = job.hand_out == FieldWidth::narrow ? narrow : DType::int16;
  // What is read where it lies is not narrowed only to be widened again.
  const DType wire = moves_without_messages(job, service.mesh()) ? handed_out : narrow;
  Step step = service.step(share_of(world, job));
  expect_handed_out(step, job, here, handed_out);
  expect_volume(step, job, service.mesh(), wire);
  // Put together anew on each rank, then sent again.
  step = service.step(std::move(step), "large");
  expect_handed_out(step, job, here, handed_out);
  step = service.step(std::move(step), "other");
  expect_handed_out(step, job, here, handed_out);
}

/// All meshes up to eight ranks, virtual stages too.
std::vector<Job> all_meshes() {
  std::vector<Job> jobs;
  for (const int tp : {1, 2}) {
    for (const int cp : {1, 2}) {
      for (const int pp : {1, 2, 3, 4}) {
        for (const int vpp : {1, 2}) {
          if (pp > 1 || vpp == 1) jobs.push_back({tp, cp, pp, vpp});
        }
      }
    }
  }
  return jobs;
}

TEST(LayeredFields, each_stage_gets_its_layers_on_every_mesh) {
  for (Job job : all_meshes()) {
    expect_whole_job(job, DType::int16);
  }
}

TEST(LayeredFields, travel_narrow_and_are_widened_or_left_as_they_are) {
  for (Job job : all_meshes()) {
    if (job.vpp > 1) continue;
    job.wire = FieldWidth::narrow;
    expect_whole_job(job, DType::uint8);
    job.hand_out = FieldWidth::narrow;
    expect_whole_job(job, DType::uint8);
  }
}

TEST(LayeredFields, travel_over_every_path_and_with_tensors_in_common) {
  for (const ExchangePath path :
       {ExchangePath::shared_memory, ExchangePath::point_to_point, ExchangePath::alltoallv}) {
    for (const auto copies : {TensorParallelCopies::own, TensorParallelCopies::shared}) {
      for (Job job : {Job{2, 1, 2, 1}, Job{1, 2, 2, 1}, Job{2, 2, 2, 1}, Job{1, 1, 2, 1}, Job{2, 1, 1, 1}}) {
        job.path = path;
        job.copies = copies;
        job.wire = FieldWidth::narrow;
        expect_whole_job(job, DType::uint8);
      }
    }
  }
}

TEST(LayeredFields, stand_once_for_shared_prefixes) {
  for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees}) {
    for (Job job : all_meshes()) {
      if (job.vpp > 1 || job.pp == 3) continue;
      job.sharing = sharing;
      job.wire = FieldWidth::narrow;
      expect_whole_job(job, DType::uint8);
    }
  }
}

TEST(LayeredFields, travel_in_a_type_that_just_holds_them) {
  const boost::mpi::communicator world;
  struct Case {
    std::int64_t least;
    std::int64_t most;
    DType wire;
  };
  // Elements are drawn from these; 20 samples have some thousand of them.
  for (const Case& c : {Case{0, 1, DType::uint8}, {-1, 1, DType::int8}, {-30000, 30000, DType::int16}}) {
    Job job{1, 1, world.size() % 2 == 0 ? 2 : 1, 1};
    job.wire = FieldWidth::narrow;
    job.least = c.least;
    job.most = c.most;
    expect_whole_job(job, c.wire);
  }
}

/// Samples of one token each, whose one element is 0 but on the last rank that has samples.
RaggedBatch one_element(int rank, int owner, std::int64_t value) {
  RaggedBatch batch({{SampleId{rank}, static_cast<std::uint64_t>(rank), 1, 1}});
  batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  batch.add_field({"x", DType::int64, FieldKind::sample, {}}).values<std::int64_t>()[0] =
      rank == owner ? value : 0;
  return batch;
}

TEST(LayeredFields, one_element_of_one_rank_decides_the_type_on_all) {
  const boost::mpi::communicator world;
  Config config;
  config.fields["x"] = {std::nullopt, FieldWidth::narrow, FieldWidth::narrow};
  DataService service(world, config);
  for (const auto& [value, dtype] :
       std::vector<std::pair<std::int64_t, DType>>{{255, DType::uint8},
                                                   {256, DType::uint16},
                                                   {65536, DType::uint32},
                                                   {-1, DType::int8},
                                                   {-129, DType::int16},
                                                   {-32769, DType::int32},
                                                   {4294967296, DType::int64},
                                                   {-2147483649, DType::int64}}) {
    for (const int owner : {0, world.size() / 2, world.size() - 1}) {
      const Step step = service.step(one_element(world.rank(), owner, value));
      for (const MicroBatch& m : step.micro_batches) {
        const Column& column = *m.tensors.find("x");
        EXPECT_EQ(column.spec().dtype, dtype);
        for (std::size_t i = 0; i < m.tensors.samples.size(); ++i)
          EXPECT_EQ(integer_at(column, i), m.tensors.samples[i].id == SampleId{owner} ? value : 0);
      }
    }
  }
}

TEST(LayeredFields, may_be_added_to_a_later_pass) {
  const boost::mpi::communicator world;
  Job job{1, 1, world.size() % 2 == 0 ? 2 : 1, 1};
  job.wire = FieldWidth::narrow;
  DataService service(world, config_of(job));
  RaggedBatch whole = share_of(world, job);
  RaggedBatch first({whole.samples().begin(), whole.samples().end()});
  first.add_field(whole.at("input_ids"));
  RaggedBatch added({whole.samples().begin(), whole.samples().end()});
  added.add_field(whole.at("experts"));
  added.add_field(whole.at("router"));
  Step step = service.step(std::move(first));
  step = service.step(std::move(step), "large", added);
  expect_handed_out(step, job, service.mesh().here(), DType::int16);
  step = service.step(std::move(step), {});
  expect_handed_out(step, job, service.mesh().here(), DType::int16);
}

TEST(LayeredFields, without_layers_or_elements_are_empty_columns) {
  const boost::mpi::communicator world;
  const int pp = world.size() % 2 == 0 ? 2 : 1;
  Config config;
  config.mesh.pp = pp;
  config.fields["none"] = {LayerMap{}, FieldWidth::narrow};
  config.fields["empty"] = {LayerMap{}, FieldWidth::narrow, FieldWidth::narrow};
  config.fields["one_sided"] = {pp == 2 ? LayerMap{{{}, {0, 1}}} : LayerMap{{{0, 1}}}};
  DataService service(world, config);
  RaggedBatch batch({{SampleId{world.rank()}, 7, 2, 3}});
  batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
  batch.add_field({"none", DType::int32, FieldKind::token, {0, 8}});
  batch.add_field({"empty", DType::int32, FieldKind::token, {4, 0}});
  std::ranges::fill(
      batch.add_field({"one_sided", DType::int32, FieldKind::sample, {2}}).values<std::int32_t>(), 5);
  const Step step = service.step(std::move(batch));
  const int stage = service.mesh().here().pp;
  for (const MicroBatch& m : step.micro_batches) {
    EXPECT_EQ(m.tensors.find("none")->spec().trailing, (std::vector<std::int64_t>{0, 8}));
    EXPECT_EQ(m.tensors.find("empty")->spec().trailing, (std::vector<std::int64_t>{4 / pp, 0}));
    EXPECT_EQ(m.tensors.find("empty")->spec().dtype, DType::uint8);
    const bool has_layers = stage == pp - 1;
    EXPECT_EQ(m.tensors.find("one_sided")->spec().trailing, (std::vector<std::int64_t>{has_layers ? 2 : 0}));
    if (!has_layers) continue;
    for (const std::int32_t value : m.tensors.find("one_sided")->values<std::int32_t>())
      EXPECT_EQ(value, m.tensors.empty() ? 0 : 5);
  }
}

std::string refusal(const std::function<void()>& act) {
  const boost::mpi::communicator world;
  std::string message = "nothing was thrown";
  try {
    act();
  } catch (const Error& error) {
    message = error.what();
  }
  std::string of_first = message;
  boost::mpi::broadcast(world, of_first, 0);
  EXPECT_EQ(message, of_first);
  return message;
}

TEST(LayeredFields, that_cannot_be_are_refused_on_every_rank_with_the_reason) {
  const boost::mpi::communicator world;
  Config config;
  config.mesh.vpp = 1;
  config.fields["x"] = {LayerMap{{{0, 1}}}, FieldWidth::narrow};
  DataService service(world, config);
  const auto step_with = [&](FieldSpec spec) {
    return refusal([&] {
      (void)service.step([&] {
        RaggedBatch batch({{SampleId{world.rank()}, 7, 2, 3}});
        batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
        batch.add_field(spec);
        return batch;
      });
    });
  };
  EXPECT_THAT(step_with({"x", DType::int16, FieldKind::token, {}}),
              HasSubstr("field 'x': has one element a row"));
  EXPECT_THAT(step_with({"x", DType::int16, FieldKind::token, {3, 2}}), HasSubstr("leave out layer 2"));
  EXPECT_THAT(step_with({"x", DType::int16, FieldKind::token, {1, 2}}), HasSubstr("name layer 1"));
  EXPECT_THAT(step_with({"x", DType::float32, FieldKind::token, {2, 2}}),
              HasSubstr("only integers can be narrowed"));
  EXPECT_EQ(step_with({"x", DType::int16, FieldKind::token, {2, 2}}), "nothing was thrown");
}

TEST(LayeredFields, that_one_rank_does_not_bring_are_refused_by_name) {
  const boost::mpi::communicator world;
  if (world.size() == 1) return;
  Config config;
  config.fields["x"] = {LayerMap{}, FieldWidth::narrow};
  DataService service(world, config);
  const std::string message = refusal([&] {
    (void)service.step([&] {
      RaggedBatch batch({{SampleId{world.rank()}, 7, 2, 3}});
      batch.add_field({"input_ids", DType::int64, FieldKind::token, {}});
      if (world.rank() != world.size() - 1) batch.add_field({"x", DType::int16, FieldKind::token, {2}});
      return batch;
    });
  });
  EXPECT_THAT(message, HasSubstr("field 'x'"));
  EXPECT_THAT(message, HasSubstr("does not have it"));
}

TEST(LayeredFields, cannot_come_home_from_the_last_stage_alone) {
  const boost::mpi::communicator world;
  const Job job;
  DataService service(world, config_of(job));
  const Step step = service.step(share_of(world, job));
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const Column& column = *step.micro_batches[m].tensors.find("experts");
    results.put(m, column.spec(), column.bytes());
  }
  EXPECT_THAT(refusal([&] { (void)service.collect(step, results); }),
              HasSubstr("result 'experts': is a field of layers"));
}

}  // namespace
}  // namespace evenkeel::layered_fields_test
