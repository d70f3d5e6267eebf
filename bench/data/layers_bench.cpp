#include <fmt/format.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "bench/race.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"

namespace evenkeel::bench {
namespace {

constexpr LogNormal sample_lengths{7.5, 1.0, 64, 8192};
constexpr const char* experts_field = "routed_experts";
constexpr std::int64_t num_layers = 48;
constexpr std::int64_t experts_per_token = 8;
constexpr std::int64_t num_experts = 128;
constexpr std::int64_t expert_bytes =
    num_layers * experts_per_token * static_cast<std::int64_t>(sizeof(std::int16_t));

// Size of a picture: two frames of 14 x 14 pixels with three colors each; four patches per token.
constexpr LogNormal sample_patches{4.7, 1.0, 4, 4096};
constexpr const char* patches_field = "patches";
constexpr std::int64_t patch_elements = 1176;
constexpr std::int64_t patch_bytes = patch_elements * static_cast<std::int64_t>(sizeof(float));
constexpr std::int64_t patches_per_token = 4;
constexpr std::int64_t text_tokens = 16;

MeshSettings mesh_over(int ranks) {
  MeshSettings mesh;
  mesh.pp = ranks % 4 == 0 ? 4 : ranks % 2 == 0 ? 2 : 1;
  mesh.cp = ranks / mesh.pp % 2 == 0 ? 2 : 1;
  return mesh;
}

/// Returns samples with routed experts of a MoE model, with a total size of about this many bytes.
RaggedBatch experts_of(int rank, const TransferOptions& options) {
  LogNormal distribution = sample_lengths;
  distribution.max = std::min(distribution.max, options.cap);
  const std::size_t count = options.samples == 0 ? 64 : static_cast<std::size_t>(options.samples);
  std::vector<SampleShape> shapes;
  std::int64_t tokens = 0;
  for (const std::int64_t length :
       made_up_lengths(count, static_cast<std::uint64_t>(rank) + 1, distribution)) {
    if (tokens > 0 && (tokens + length) * expert_bytes > options.bytes) break;
    tokens += length;
    const SampleId id{rank * static_cast<std::int64_t>(count) + std::ssize(shapes)};
    shapes.push_back({id, static_cast<std::uint64_t>(id.value()), length / 4, length - length / 4});
  }
  RaggedBatch batch(std::move(shapes));
  std::ranges::fill(batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}})
                        .values<std::int64_t>(),
                    7);
  std::int64_t expert = 0;
  Column& column =
      batch.add_field({experts_field, DType::int16, FieldKind::token, {num_layers, experts_per_token}});
  for (std::int16_t& element : column.values<std::int16_t>())
    element = static_cast<std::int16_t>(expert = (expert + 5) % num_experts);
  return batch;
}

/// Returns samples with patches of images and some text, with a total size of about this many bytes. Each
/// sample has its own number of patches, with one token per four patches; every fifth sample has no image.
RaggedBatch patches_of(int rank, const TransferOptions& options) {
  LogNormal distribution = sample_patches;
  distribution.max = std::min(distribution.max, patches_per_token * (options.cap - text_tokens));
  const std::size_t count = options.samples == 0 ? 64 : static_cast<std::size_t>(options.samples);
  std::vector<SampleShape> shapes;
  std::vector<std::int64_t> counts;
  std::int64_t patches = 0;
  for (const std::int64_t drawn :
       made_up_lengths(count, static_cast<std::uint64_t>(rank) + 101, distribution)) {
    if (patches > 0 && (patches + drawn) * patch_bytes > options.bytes) break;
    const std::int64_t of_sample = std::ssize(shapes) % 5 == 4 ? 0 : drawn;
    const SampleId id{rank * static_cast<std::int64_t>(count) + std::ssize(shapes)};
    shapes.push_back(
        {id, static_cast<std::uint64_t>(id.value()), of_sample / patches_per_token, text_tokens});
    counts.push_back(of_sample);
    patches += of_sample;
  }
  RaggedBatch batch(std::move(shapes));
  std::ranges::fill(batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}})
                        .values<std::int64_t>(),
                    7);
  Column column({patches_field, DType::float32, FieldKind::rows, {patch_elements}},
                SampleRows::from_counts(counts));
  std::ranges::fill(column.values<float>(), 0.5F);
  batch.add_field(std::move(column));
  return batch;
}

/// A way to deliver a field.
struct FieldWay {
  std::string name;
  std::string field;
  MeshSettings mesh;
  std::optional<FieldSettings> settings;  ///< if unset, the whole field goes to the last stage
};

/// Makes the steps for one way.
class FieldJob {
 public:
  FieldJob(const boost::mpi::communicator& world, const TransferOptions& options, const FieldWay& way)
      : world_(world), field_(way.field), service_(world, config_for(options, way)) {}

  /// Returns the seconds from having samples to having their tensors on this rank, excluding planning.
  /// Scanning integers to be narrowed is included.
  double run(const RaggedBatch& samples) {
    RaggedBatch mine = samples;
    world_.barrier();
    const Step step = service_.step(std::move(mine));
    received_ = 0;
    for (const FieldVolume& volume : step.record->volumes) {
      if (volume.name == field_) received_ = volume.received + volume.copied;
    }
    return step.seconds.gather + step.seconds.exchange + step.seconds.pack;
  }

  /// Returns the bytes of the field that all ranks received in the last step. Collective.
  [[nodiscard]] std::int64_t bytes_on_all_ranks() const {
    return boost::mpi::all_reduce(world_, received_, std::plus<std::int64_t>());
  }

 private:
  static Config config_for(const TransferOptions& options, const FieldWay& way) {
    Config config;
    config.mesh = way.mesh;
    config.micro_batch.max_tokens = options.cap;
    if (way.settings) config.fields[way.field] = *way.settings;
    return config;
  }

  const boost::mpi::communicator& world_;
  std::string field_;
  DataService service_;
  std::int64_t received_ = 0;
};

std::vector<FieldWay> layers_ways(int ranks) {
  const MeshSettings mesh = mesh_over(ranks);
  FieldSettings layers;
  layers.layers = LayerMap{};
  FieldSettings widened = layers;
  widened.wire_dtype = FieldWidth::narrow;
  FieldSettings narrow = widened;
  narrow.dtype = FieldWidth::narrow;
  return {{"whole, to the last stage", experts_field, mesh, std::nullopt},
          {"layers, as brought", experts_field, mesh, layers},
          {"layers, narrow, widened again", experts_field, mesh, widened},
          {"layers, narrow, handed out so", experts_field, mesh, narrow}};
}

/// Every rank is a DP rank and gets the rows of its samples.
std::vector<FieldWay> rows_ways() {
  return {{"rows, whole", patches_field, MeshSettings{}, std::nullopt}};
}

/// Collective. `bytes` is the size of the field supplied by this rank; rank 0 gets the table.
Table race_ways(const boost::mpi::communicator& world, const TransferOptions& options,
                const RaggedBatch& samples, std::int64_t bytes, std::span<const FieldWay> ways, Table table) {
  const std::int64_t total = boost::mpi::all_reduce(world, bytes, std::plus<std::int64_t>());
  const std::vector<std::byte> source(static_cast<std::size_t>(total / world.size()), std::byte{1});
  std::vector<std::byte> target(source.size());
  Race race(world);
  race.add_memcpy(source, target);
  std::vector<std::unique_ptr<FieldJob>> jobs;
  for (const FieldWay& way : ways) {
    FieldJob& job = *jobs.emplace_back(std::make_unique<FieldJob>(world, options, way));
    race.add(way.name, [&job, &samples] { return job.run(samples); });
  }
  const std::vector<Samples> timed = race.run(options.rounds);
  std::vector<std::int64_t> received{total};
  for (const auto& job : jobs) received.push_back(job->bytes_on_all_ranks());
  for (std::size_t c = 0; c < timed.size(); ++c) {
    const Samples& s = timed[c];
    const double middle = median(s.seconds);
    table.add({s.name, received[c], static_cast<double>(total) / middle / 1e9, middle * 1e3,
               std::ranges::min(s.seconds) * 1e3, std::ranges::max(s.seconds) * 1e3,
               speed_against(timed[0], s)});
  }
  return table;
}

Table table_of(std::string key, std::string title) {
  return {std::move(key),
          std::move(title),
          {{"case", "case"},
           {"bytes", "bytes that ranks get"},
           {"gb_per_second", "GB/s", 2},
           {"ms_median", "ms, median", 3},
           {"ms_min", "least", 3},
           {"ms_max", "most", 3},
           {"speed_of_memcpy", "x memcpy", 3}}};
}

}  // namespace

Report bench_layers(const boost::mpi::communicator& world, const TransferOptions& options) {
  const RaggedBatch experts = experts_of(world.rank(), options);
  Table layers = race_ways(
      world, options, experts, experts.num_tokens() * expert_bytes, layers_ways(world.size()),
      table_of("layers", "A field of layers: the slowest rank's time, all ranks beginning together"));
  const std::int64_t brought =
      boost::mpi::all_reduce(world, experts.num_tokens() * expert_bytes, std::plus<std::int64_t>());
  const RaggedBatch patches = patches_of(world.rank(), options);
  const std::int64_t of_patches = patches.at(patches_field).rows() * patch_bytes;
  Table rows = race_ways(
      world, options, patches, of_patches, rows_ways(),
      table_of("rows", "Rows that samples count, each rank a DP rank: the same, and its own memcpy"));
  if (world.rank() != 0) return {};

  const MeshSettings mesh = mesh_over(world.size());
  Report report{
      "layers",
      {{"ranks", world.size()},
       {"mesh", fmt::format("cp {} x dp {} x pp {}", mesh.cp, world.size() / mesh.cp / mesh.pp, mesh.pp)},
       {"row", fmt::format("[{}, {}] int16", num_layers, experts_per_token)},
       {"counted_row", fmt::format("[{}] float32", patch_elements)},
       {"bytes_over_all_ranks", brought},
       {"rounds", options.rounds}},
      {},
      {"Speeds are of the bytes that samples bring, whatever they become on the way; memcpy copies as "
       "many. Time is that of all phases but planning, looking through the integers included."}};
  report.tables.push_back(std::move(layers));
  report.tables.push_back(std::move(rows));
  return report;
}

}  // namespace evenkeel::bench
