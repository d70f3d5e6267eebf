#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/mpi/collectives.hpp>
#include <numeric>

#include "bench/benchmarks.hpp"
#include "bench/measurement.hpp"
#include "bench/race.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/plan/shared_groups.hpp"
#include "evenkeel/service/data_service.hpp"
#include "service/step_record.hpp"

namespace evenkeel::bench {
namespace {

constexpr std::array<std::int64_t, 4> group_sizes{4, 8, 16, 64};
constexpr std::array<std::int64_t, 4> quarters_of_response{1, 4, 16, 64};  // a prefix, in such quarters

/// Groups of one size: every sample is a prefix and a response of its own.
struct Shape {
  std::int64_t group_size = 0;
  std::int64_t prefix = 0;           ///< tokens
  std::int64_t response = 0;         ///< tokens
  std::int64_t groups_per_rank = 0;  ///< as many as come next to the tokens asked for, at least one
};

Shape shape_of(std::int64_t group_size, std::int64_t quarters, const PrefixOptions& options) {
  Shape shape{group_size, options.response * quarters / 4, options.response, 0};
  const std::int64_t repeated = group_size * (shape.prefix + shape.response);
  shape.groups_per_rank = std::max<std::int64_t>((options.tokens + repeated / 2) / repeated, 1);
  return shape;
}

RaggedBatch made_up_groups(int rank, const Shape& shape) {
  std::vector<SampleShape> samples;
  const std::int64_t first_group = rank * shape.groups_per_rank;
  for (std::int64_t i = 0; i < shape.groups_per_rank * shape.group_size; ++i) {
    const std::int64_t group = first_group + i / shape.group_size;
    samples.push_back({SampleId{first_group * shape.group_size + i}, static_cast<std::uint64_t>(group),
                       shape.prefix, shape.response});
  }
  RaggedBatch batch(std::move(samples));
  Column& tokens = batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  const std::span<std::int64_t> values = tokens.values<std::int64_t>();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const SampleShape& sample = batch.samples()[static_cast<std::size_t>(i)];
    const auto begin = values.begin() + batch.token_offsets()[static_cast<std::size_t>(i)];
    std::fill_n(begin, sample.prompt, static_cast<std::int64_t>(sample.group));
    std::fill_n(begin + sample.prompt, sample.response, sample.id.value());
  }
  return batch;
}

/// The same samples every step, with prefixes shared or not.
class PrefixJob {
 public:
  /// Collective. Both must outlive it.
  PrefixJob(const boost::mpi::communicator& world, const RaggedBatch& mine, PrefixSharing sharing,
            std::int64_t cap)
      : world_(world), mine_(mine), service_(world, config_for(sharing, cap)) {}

  /// Collective: one step; returns this rank's seconds.
  double step() {
    RaggedBatch mine = mine_;
    return seconds_of([&] { last_ = service_.step(std::move(mine)); });
  }

  /// Collective. Of the last step, over all ranks; so below.
  [[nodiscard]] std::int64_t bytes_moved() const {
    return boost::mpi::all_reduce(world_, last_.volume.sent + last_.volume.kept, std::plus<std::int64_t>());
  }
  /// Collective: aligned tokens of all micro-batches.
  [[nodiscard]] std::int64_t rows_packed() const {
    return boost::mpi::all_reduce(world_, last_.record->plan.aligned_tokens(), std::plus<std::int64_t>());
  }
  /// Local. Precondition: prefixes are shared.
  [[nodiscard]] SharingSavings savings() const {
    EVENKEEL_PRECONDITION(cheap, last_.record->assignment.has_shared_prefixes());
    return savings_of(last_.record->assignment.units);
  }

 private:
  [[nodiscard]] static Config config_for(PrefixSharing sharing, std::int64_t cap) {
    Config config;
    config.micro_batch.max_tokens = cap;
    config.prefix = sharing;
    return config;
  }

  const boost::mpi::communicator& world_;
  const RaggedBatch& mine_;
  DataService service_;
  Step last_;
};

/// A figure repeated, shared, and how many times less it is shared.
void add_figures(std::vector<nlohmann::json>& row, std::int64_t repeated, std::int64_t shared) {
  row.insert(row.end(), {repeated, shared, static_cast<double>(repeated) / static_cast<double>(shared)});
}

struct PrefixTables {
  Table packed{"packed",
               "Rows packed and attention's score entries, over all ranks",
               {{"group_size", "G"},
                {"ratio", "prefix / response", 2},
                {"groups", "groups"},
                {"repeated_rows", "rows, repeated"},
                {"rows", "shared"},
                {"rows_saving", "x", 2},
                {"repeated_score_entries", "score entries, repeated"},
                {"score_entries", "shared"},
                {"score_entries_saving", "x", 2}}};
  Table moved{"moved",
              "Bytes moved over all ranks, what stays on its rank included, and the slowest rank's step",
              {{"group_size", "G"},
               {"ratio", "prefix / response", 2},
               {"repeated_bytes", "bytes, repeated"},
               {"bytes", "shared"},
               {"bytes_saving", "x", 2},
               {"repeated_ms_median", "ms, median, repeated", 3},
               {"ms_median", "shared", 3},
               {"speed", "x", 2}}};
};

void measure(const boost::mpi::communicator& world, const Shape& shape, const PrefixOptions& options,
             PrefixTables& tables) {
  const RaggedBatch mine = made_up_groups(world.rank(), shape);
  PrefixJob repeated(world, mine, PrefixSharing::none, options.cap);
  PrefixJob shared(world, mine, PrefixSharing::prompts, options.cap);
  Race race(world);
  race.add("repeated", [&] { return repeated.step(); });
  race.add("shared", [&] { return shared.step(); });
  const std::vector<Samples> times = race.run(options.rounds);

  const double ratio = static_cast<double>(shape.prefix) / static_cast<double>(shape.response);
  const SharingSavings savings = shared.savings();
  std::vector<nlohmann::json> packed{shape.group_size, ratio, shape.groups_per_rank * world.size()};
  add_figures(packed, repeated.rows_packed(), shared.rows_packed());
  add_figures(packed, savings.repeated_score_entries, savings.score_entries);
  tables.packed.add(std::move(packed));
  std::vector<nlohmann::json> moved{shape.group_size, ratio};
  add_figures(moved, repeated.bytes_moved(), shared.bytes_moved());
  moved.insert(moved.end(), {median(times[0].seconds) * 1e3, median(times[1].seconds) * 1e3,
                             speed_against(times[0], times[1])});
  tables.moved.add(std::move(moved));
}

}  // namespace

Report bench_prefix(const boost::mpi::communicator& world, const PrefixOptions& options) {
  PrefixTables tables;
  for (const std::int64_t group_size : group_sizes) {
    for (const std::int64_t quarters : quarters_of_response) {
      measure(world, shape_of(group_size, quarters, options), options, tables);
    }
  }
  if (world.rank() != 0) return {};
  return {"prefix",
          {{"ranks", world.size()},
           {"mesh", fmt::format("dp {}", world.size())},
           {"response", options.response},
           {"repeated_tokens_per_rank", options.tokens},
           {"cap", options.cap},
           {"rounds", options.rounds}},
          {std::move(tables.packed), std::move(tables.moved)},
          {"Labels do not travel: with sharing as without, they are derived from the tokens after the "
           "exchange."}};
}

}  // namespace evenkeel::bench
