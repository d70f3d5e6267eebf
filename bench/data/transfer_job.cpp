#include "bench/data/transfer_job.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <boost/serialization/vector.hpp>
#include <optional>
#include <ranges>

#include "bench/measurement.hpp"
#include "bench/plan/lengths.hpp"
#include "exchange/gather/broadcast_assignment.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/length_gather.hpp"

namespace evenkeel::bench {
namespace {

constexpr LogNormal long_tail{7.5, 1.0, 64, 8192};
constexpr const char* payload_field = "payload";

Config config_for(const TransferOptions& options, const ExchangeSettings& exchange) {
  Config config;
  config.micro_batch.max_tokens = options.cap;
  config.exchange = exchange;
  return config;
}

RaggedBatch made_up_samples(int rank, std::int64_t count, std::int64_t longest) {
  LogNormal distribution = long_tail;
  distribution.max = std::min(distribution.max, longest);
  std::vector<SampleShape> shapes;
  for (const std::int64_t length :
       made_up_lengths(static_cast<std::size_t>(count), static_cast<std::uint64_t>(rank) + 1, distribution)) {
    const SampleId id{rank * count + static_cast<std::int64_t>(shapes.size())};
    shapes.push_back({id, static_cast<std::uint64_t>(id.value()), length / 4, length - length / 4});
  }
  return RaggedBatch(std::move(shapes));
}

}  // namespace

std::span<const NamedPath> exchange_paths(bool several_nodes) {
  constexpr TensorParallelCopies own = TensorParallelCopies::own;
  static constexpr NamedPath paths[] = {
      {"automatic", {}},
      {"point-to-point", {ExchangePath::point_to_point}},
      {"alltoallv", {ExchangePath::alltoallv}},
      {"automatic, always by leaders", {ExchangePath::automatic, own, NodeAggregation::always}},
      {"automatic, never by leaders", {ExchangePath::automatic, own, NodeAggregation::never}}};
  return std::span(paths).first(several_nodes ? 5 : 3);
}

TransferJob::TransferJob(const boost::mpi::communicator& world, const TransferOptions& options)
    : world_(world),
      node_(Communicator(world).split_by_node()),
      options_(options),
      samples_per_rank_(options.samples == 0 ? 64
                                             : std::max<std::int64_t>(options.samples / world.size(), 1)),
      mine_(made_up_samples(world.rank(), samples_per_rank_, options.cap)) {
  // Rows have the width for which the rank with the most tokens holds the requested bytes.
  const auto most_tokens =
      boost::mpi::all_reduce(world, mine_.num_tokens(), boost::mpi::maximum<std::int64_t>());
  const std::int64_t width = std::max<std::int64_t>(options.bytes / most_tokens - 8, 0);
  bytes_per_token_ = static_cast<std::size_t>(width) + sizeof(std::int64_t);
  Column& tokens = mine_.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  std::ranges::fill(tokens.values<std::int64_t>(), world.rank() + 1);
  if (width == 0) return;
  Column& payload = mine_.add_field({payload_field, DType::uint8, FieldKind::token, {width}});
  std::ranges::fill(payload.values<std::uint8_t>(), static_cast<std::uint8_t>(world.rank() + 1));
}

std::int64_t TransferJob::payload_bytes() const noexcept {
  return mine_.num_tokens() * static_cast<std::int64_t>(bytes_per_token_);
}

DataService& TransferJob::service(const ExchangeSettings& exchange) {
  const auto known = std::ranges::find(services_, exchange, &std::pair<ExchangeSettings, DataService>::first);
  if (known != services_.end()) return known->second;
  return services_.emplace_back(exchange, DataService(world_, config_for(options_, exchange))).second;
}

TimedStep TransferJob::step(const ExchangeSettings& exchange) {
  DataService& service = this->service(exchange);
  TimedStep timed;
  Step step;
  RaggedBatch mine = mine_;
  world_.barrier();
  timed.seconds = seconds_of([&] { step = service.step(std::move(mine)); });
  timed.phases = step.seconds;
  timed.micro_batches = static_cast<std::int64_t>(step.micro_batches.size());
  timed.bytes_from.assign(static_cast<std::size_t>(world_.size()), 0);
  for (const PackedMicroBatch& m : step.micro_batches | std::views::transform(&MicroBatch::tensors)) {
    for (const SampleShape& sample : m.samples) {
      if (sample.id.value() < 0) continue;  // filler
      timed.bytes_from[static_cast<std::size_t>(sample.id.value() / samples_per_rank_)] +=
          sample.length() * static_cast<std::int64_t>(bytes_per_token_);
    }
  }
  return timed;
}

double TransferJob::seconds_to_plan() {
  DataService& service = this->service({});
  const PlanSettings settings = service.plan_settings();
  const DpRank rank{service.mesh().here().dp};
  world_.barrier();
  return seconds_of([&] {
    const auto [table, fields] = gather_lengths(world_, summaries_of(mine_), fields_of(mine_), std::nullopt);
    GuardedWork work;
    const StepProblem problem{table, settings};
    const StepAssignment assignment = assign_together(node_, 0, problem, work);
    RankPeers peers(world_, work);
    (void)plan_dp_ranks(problem, assignment, {&rank, 1}, peers);
    work.agree(world_);
  });
}

DataService TransferJob::service_ahead(std::int64_t depth) const {
  Config config = config_for(options_, {});
  config.exchange.prefetch = depth;
  return {world_, config};
}

std::vector<std::vector<double>> at_first_rank(const boost::mpi::communicator& world,
                                               const std::vector<double>& mine) {
  std::vector<std::vector<double>> all;
  boost::mpi::gather(world, mine, all, 0);
  return all;
}

}  // namespace evenkeel::bench
