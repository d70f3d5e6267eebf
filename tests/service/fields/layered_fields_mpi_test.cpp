#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"
#include "support/carried_samples.hpp"

// Tests fields with layers in whole steps: each pipeline stage gets exactly its own layers of its own rows,
// and no other byte is sent. The expected values are computed here from the samples alone.

namespace evenkeel::layered_fields_test {
namespace {

using testing::HasSubstr;
using testing_support::Carried;
using testing_support::carried_batch;
using testing_support::carried_shape;
using testing_support::expect_carried;
using testing_support::number_at;
using testing_support::packed_rows_of;
using testing_support::PackedRow;
using testing_support::settings_of;

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
  FieldWidth wire_dtype = FieldWidth::original;
  FieldWidth dtype = FieldWidth::original;
  std::int64_t most = 200;  ///< elements are from 0 to this
  std::int64_t least = 0;

  [[nodiscard]] bool fits(int ranks) const { return ranks % (tp * cp * pp) == 0; }
};

std::string text_of(const Job& job) {
  return "tp " + std::to_string(job.tp) + " cp " + std::to_string(job.cp) + " pp " + std::to_string(job.pp) +
         " vpp " + std::to_string(job.vpp) + " path " + std::to_string(static_cast<int>(job.path)) +
         " copies " + std::to_string(static_cast<int>(job.copies)) + " sharing " +
         std::to_string(static_cast<int>(job.sharing)) + " wire " +
         std::to_string(static_cast<int>(job.wire_dtype));
}

/// Returns the fields that samples have, and the type in which ranks get the experts.
std::vector<Carried> fields_of(const Job& job, DType experts = DType::int16) {
  return {{{"experts", DType::int16, FieldKind::token, {layers, per_layer}},
           {LayerMap{}, job.wire_dtype, job.dtype},
           job.least,
           job.most,
           experts},
          {{"router", DType::float32, FieldKind::response_token, {layers}},
           {LayerMap{}},
           0,
           1 << 30,
           DType::float32}};
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
  config.fields = settings_of(fields_of(job));
  config.profiles["large"] = config.profile({});
  config.profiles["large"].micro_batch.max_tokens = 256;
  config.profiles["other"] = config.profile({});
  config.profiles["other"].pack.align_lcm = 16;
  return config;
}

/// Returns the samples of a rank: if there are several ranks, the last one has none.
RaggedBatch share_of(const boost::mpi::communicator& world, const std::vector<Carried>& fields,
                     bool with_tokens = true) {
  const int owners = std::max(1, world.size() - 1);
  std::vector<SampleShape> shapes;
  for (std::int64_t id = 0; id < 20; ++id)
    if (id % owners == world.rank()) shapes.push_back(carried_shape(id));
  return carried_batch(std::move(shapes), fields, with_tokens);
}

void expect_delivered(const Step& step, const Job& job, const GridPoint& here, DType experts) {
  for (const MicroBatch& m : step.micro_batches) {
    expect_carried(m.tensors, fields_of(job, experts), {here.pp, job.pp, job.vpp});
    EXPECT_EQ(m.tensors.find("experts")->spec().trailing.back(), per_layer);
    EXPECT_EQ(m.tensors.find("advantages"), nullptr);
    EXPECT_EQ(m.tensors.find("labels") != nullptr, here.pp == job.pp - 1 || here.pp == 0);
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

/// Returns the lowest rank of this node that has the same rows of the same stage.
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

/// Requires that exactly the bytes of this stage's layers for this rank's tokens are sent.
void expect_volume(const Step& step, const Job& job, const Mesh& mesh, DType wire) {
  const auto& volumes = step.record->volumes;
  const auto found = std::ranges::find(volumes, "experts", &FieldVolume::name);
  ASSERT_NE(found, volumes.end());
  const FieldVolume& volume = *found;
  const std::int64_t row_bytes = layers / job.pp * per_layer * static_cast<std::int64_t>(size_of(wire));
  const bool receives = receiver_of(mesh) == mesh.rank().value();
  EXPECT_EQ(volume.received, receives ? true_rows(step) * row_bytes : 0);
  // Ranks with shared tensors copy nothing.
  const bool copies = !receives && job.copies == TensorParallelCopies::own;
  EXPECT_EQ(volume.copied, copies ? all_rows(step) * row_bytes : 0);

  // The total received by all ranks equals the total sent or kept by all ranks.
  std::int64_t got = 0;
  for (const FieldVolume& of_field : volumes) got += of_field.received;
  const boost::mpi::communicator world;
  EXPECT_EQ(boost::mpi::all_reduce(world, got, std::plus<>()),
            boost::mpi::all_reduce(world, step.volume.sent + step.volume.kept, std::plus<>()));
  std::int64_t copied = 0;
  for (const FieldVolume& of_field : volumes) copied += of_field.copied;
  EXPECT_EQ(copied, step.volume.copied);
}

/// Returns whether every rank reads its rows from the owner's memory, so no messages are sent.
bool moves_without_messages(const Job& job, const Mesh& mesh) {
  if (mesh.grid().num_ranks() == 1) return true;
  const auto is_elsewhere = [&](int node) { return node != mesh.nodes().front(); };
  return std::ranges::none_of(mesh.nodes(), is_elsewhere) &&
         (job.path == ExchangePath::automatic || job.path == ExchangePath::shared_memory);
}

/// `narrow` is the smallest type that can represent the field's elements.
void expect_whole_job(const Job& job, DType narrow) {
  const boost::mpi::communicator world;
  if (!job.fits(world.size())) return;
  const testing::ScopedTrace trace(__FILE__, __LINE__, text_of(job));
  DataService service(world, config_of(job));
  const GridPoint& here = service.mesh().here();
  const DType delivered_dtype = job.dtype == FieldWidth::narrow ? narrow : DType::int16;
  // Values that are read in place are not narrowed, because they would have to be widened again.
  const DType wire = moves_without_messages(job, service.mesh()) ? delivered_dtype : narrow;
  Step step = service.step(share_of(world, fields_of(job)));
  expect_delivered(step, job, here, delivered_dtype);
  expect_volume(step, job, service.mesh(), wire);
  // Repacks the step on each rank, then sends it again.
  step = service.step(std::move(step), "large");
  expect_delivered(step, job, here, delivered_dtype);
  step = service.step(std::move(step), "other");
  expect_delivered(step, job, here, delivered_dtype);
}

/// Returns all meshes with up to eight ranks, including virtual stages.
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

TEST(LayeredFields, are_sent_narrow_and_optionally_widened) {
  for (Job job : all_meshes()) {
    if (job.vpp > 1) continue;
    job.wire_dtype = FieldWidth::narrow;
    expect_whole_job(job, DType::uint8);
    job.dtype = FieldWidth::narrow;
    expect_whole_job(job, DType::uint8);
  }
}

TEST(LayeredFields, work_on_every_path_and_with_shared_tensors) {
  for (const ExchangePath path :
       {ExchangePath::shared_memory, ExchangePath::point_to_point, ExchangePath::alltoallv}) {
    for (const auto copies : {TensorParallelCopies::own, TensorParallelCopies::shared}) {
      for (Job job : {Job{2, 1, 2, 1}, Job{1, 2, 2, 1}, Job{2, 2, 2, 1}, Job{1, 1, 2, 1}, Job{2, 1, 1, 1}}) {
        job.path = path;
        job.copies = copies;
        job.wire_dtype = FieldWidth::narrow;
        expect_whole_job(job, DType::uint8);
      }
    }
  }
}

TEST(LayeredFields, are_stored_once_for_shared_prefixes) {
  for (const PrefixSharing sharing : {PrefixSharing::prompts, PrefixSharing::trees}) {
    for (Job job : all_meshes()) {
      if (job.vpp > 1 || job.pp == 3) continue;
      job.sharing = sharing;
      job.wire_dtype = FieldWidth::narrow;
      expect_whole_job(job, DType::uint8);
    }
  }
}

TEST(LayeredFields, are_sent_in_the_smallest_type) {
  const boost::mpi::communicator world;
  struct Case {
    std::int64_t least;
    std::int64_t most;
    DType wire;
  };
  // Elements are drawn from these; 20 samples have several thousand of them.
  for (const Case& c : {Case{0, 1, DType::uint8}, {-1, 1, DType::int8}, {-30000, 30000, DType::int16}}) {
    Job job{1, 1, world.size() % 2 == 0 ? 2 : 1, 1};
    job.wire_dtype = FieldWidth::narrow;
    job.least = c.least;
    job.most = c.most;
    expect_whole_job(job, c.wire);
  }
}

/// Returns samples of one token each, whose only element is 0 except on the last rank with samples.
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
          EXPECT_EQ(number_at(column, static_cast<std::int64_t>(i), 0),
                    m.tensors.samples[i].id == SampleId{owner} ? value : 0);
      }
    }
  }
}

TEST(LayeredFields, may_be_added_to_a_later_pass) {
  const boost::mpi::communicator world;
  Job job{1, 1, world.size() % 2 == 0 ? 2 : 1, 1};
  job.wire_dtype = FieldWidth::narrow;
  DataService service(world, config_of(job));
  Step step = service.step(share_of(world, {}));
  step = service.step(std::move(step), "large", share_of(world, fields_of(job), /*with_tokens=*/false));
  expect_delivered(step, job, service.mesh().here(), DType::int16);
  step = service.step(std::move(step), {});
  expect_delivered(step, job, service.mesh().here(), DType::int16);
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

TEST(LayeredFields, invalid_ones_are_refused_on_every_rank_with_the_reason) {
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
              HasSubstr("field 'x': has one element per row"));
  EXPECT_THAT(step_with({"x", DType::int16, FieldKind::token, {3, 2}}),
              HasSubstr("does not contain layer 2"));
  EXPECT_THAT(step_with({"x", DType::int16, FieldKind::token, {1, 2}}), HasSubstr("contains layer 1"));
  EXPECT_THAT(step_with({"x", DType::float32, FieldKind::token, {2, 2}}),
              HasSubstr("only integers can be narrowed"));
  EXPECT_EQ(step_with({"x", DType::int16, FieldKind::token, {2, 2}}), "nothing was thrown");
}

TEST(LayeredFields, missing_on_one_rank_are_refused_by_name) {
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

TEST(LayeredFields, cannot_be_results_of_the_last_stage) {
  const boost::mpi::communicator world;
  const Job job;
  DataService service(world, config_of(job));
  const Step step = service.step(share_of(world, fields_of(job)));
  StepResults results(step.micro_batches.size());
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m) {
    const Column& column = *step.micro_batches[m].tensors.find("experts");
    results.put(m, column.spec(), column.bytes());
  }
  EXPECT_THAT(refusal([&] { (void)service.collect(step, results); }),
              HasSubstr("result 'experts': has layers that are split over pipeline stages"));
}

}  // namespace
}  // namespace evenkeel::layered_fields_test
