#include <fmt/format.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "bench/benchmarks.hpp"
#include "bench/lengths.hpp"
#include "bench/measurement.hpp"
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
constexpr std::int64_t token_bytes =
    num_layers * experts_per_token * static_cast<std::int64_t>(sizeof(std::int16_t));

MeshSettings mesh_over(int ranks) {
  MeshSettings mesh;
  mesh.pp = ranks % 4 == 0 ? 4 : ranks % 2 == 0 ? 2 : 1;
  mesh.cp = ranks / mesh.pp % 2 == 0 ? 2 : 1;
  return mesh;
}

/// Routed experts of a MoE model, of samples that fill about so many bytes.
RaggedBatch experts_of(int rank, const TransferOptions& options) {
  LogNormal distribution = sample_lengths;
  distribution.max = std::min(distribution.max, options.cap);
  const std::size_t count = options.samples == 0 ? 64 : static_cast<std::size_t>(options.samples);
  std::vector<SampleShape> shapes;
  std::int64_t tokens = 0;
  for (const std::int64_t length :
       made_up_lengths(count, static_cast<std::uint64_t>(rank) + 1, distribution)) {
    if (tokens > 0 && (tokens + length) * token_bytes > options.bytes) break;
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

/// One way to hand the field out.
struct LayersWay {
  std::string name;
  std::optional<FieldSettings> settings;  ///< none: to the last stage, whole
};

/// Steps of one way.
class LayersJob {
 public:
  LayersJob(const boost::mpi::communicator& world, const TransferOptions& options, const LayersWay& way)
      : world_(world), service_(world, config_for(options, way, world.size())) {}

  /// Seconds that samples take on this rank from where they are to tensors, but for planning: looking through
  /// integers that are narrowed counts.
  double run(const RaggedBatch& samples) {
    RaggedBatch mine = samples;
    world_.barrier();
    const Step step = service_.step(std::move(mine));
    received_ = 0;
    for (const FieldVolume& volume : step.record->volumes) {
      if (volume.name == experts_field) received_ = volume.received + volume.copied;
    }
    return step.seconds.gather + step.seconds.exchange + step.seconds.pack;
  }

  /// Bytes of the field that all ranks got in the last step. Collective.
  [[nodiscard]] std::int64_t bytes_on_all_ranks() const {
    return boost::mpi::all_reduce(world_, received_, std::plus<std::int64_t>());
  }

 private:
  static Config config_for(const TransferOptions& options, const LayersWay& way, int ranks) {
    Config config;
    config.mesh = mesh_over(ranks);
    config.micro_batch.max_tokens = options.cap;
    if (way.settings) config.fields[experts_field] = *way.settings;
    return config;
  }

  const boost::mpi::communicator& world_;
  DataService service_;
  std::int64_t received_ = 0;
};

std::vector<LayersWay> layers_ways() {
  FieldSettings layers;
  layers.layers = LayerMap{};
  FieldSettings widened = layers;
  widened.wire = FieldWidth::narrow;
  FieldSettings narrow = widened;
  narrow.hand_out = FieldWidth::narrow;
  return {{"whole, to the last stage", std::nullopt},
          {"layers, as brought", layers},
          {"layers, narrow, widened again", widened},
          {"layers, narrow, handed out so", narrow}};
}

}  // namespace

Report bench_layers(const boost::mpi::communicator& world, const TransferOptions& options) {
  const RaggedBatch samples = experts_of(world.rank(), options);
  const std::int64_t mine = samples.num_tokens() * token_bytes;
  const std::int64_t total = boost::mpi::all_reduce(world, mine, std::plus<std::int64_t>());
  const std::vector<std::byte> source(static_cast<std::size_t>(total / world.size()), std::byte{1});
  std::vector<std::byte> target(source.size());
  Race race(world);
  race.add("memcpy on all ranks",
           [&] { return seconds_of([&] { std::memcpy(target.data(), source.data(), source.size()); }); });
  std::vector<std::unique_ptr<LayersJob>> jobs;
  for (const LayersWay& way : layers_ways()) {
    LayersJob& job = *jobs.emplace_back(std::make_unique<LayersJob>(world, options, way));
    race.add(way.name, [&job, &samples] { return job.run(samples); });
  }
  const std::vector<Samples> timed = race.run(options.rounds);
  std::vector<std::int64_t> bytes{total};
  for (const auto& job : jobs) bytes.push_back(job->bytes_on_all_ranks());
  if (world.rank() != 0) return {};

  const MeshSettings mesh = mesh_over(world.size());
  Report report{
      "layers",
      {{"ranks", world.size()},
       {"mesh", fmt::format("cp {} x dp {} x pp {}", mesh.cp, world.size() / mesh.cp / mesh.pp, mesh.pp)},
       {"row", fmt::format("[{}, {}] int16", num_layers, experts_per_token)},
       {"bytes_over_all_ranks", total},
       {"rounds", options.rounds}},
      {},
      {"Speeds are of the bytes that samples bring, whatever they become on the way; memcpy copies as "
       "many. Time is that of all phases but planning, looking through the integers included."}};
  Table table("layers", "The slowest rank's time, all ranks beginning together",
              {{"case", "case"},
               {"bytes", "bytes that ranks get"},
               {"gb_per_second", "GB/s", 2},
               {"ms_median", "ms, median", 3},
               {"ms_min", "least", 3},
               {"ms_max", "most", 3},
               {"speed_of_memcpy", "x memcpy", 3}});
  for (std::size_t c = 0; c < timed.size(); ++c) {
    const Samples& s = timed[c];
    const double middle = median(s.seconds);
    table.add({s.name, bytes[c], static_cast<double>(total) / middle / 1e9, middle * 1e3,
               std::ranges::min(s.seconds) * 1e3, std::ranges::max(s.seconds) * 1e3,
               speed_against(timed[0], s)});
  }
  report.tables.push_back(std::move(table));
  return report;
}

}  // namespace evenkeel::bench
