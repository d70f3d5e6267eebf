#include "evenkeel/service/data_service.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <chrono>
#include <stdexcept>

#include "evenkeel/exchange/field_agreement.hpp"
#include "evenkeel/exchange/length_gather.hpp"
#include "evenkeel/mesh/fail_together.hpp"

namespace evenkeel {
namespace {

/// Seconds since the last lap.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Every rank plans from equal input, so different plans are a bug; debug builds look.
void require_equal_plans([[maybe_unused]] const boost::mpi::communicator& world,
                         [[maybe_unused]] std::uint64_t hash) {
#ifndef NDEBUG
  const auto word = static_cast<std::int64_t>(hash);
  const auto least = boost::mpi::all_reduce(world, word, boost::mpi::minimum<std::int64_t>());
  const auto most = boost::mpi::all_reduce(world, word, boost::mpi::maximum<std::int64_t>());
  if (least != most) throw std::logic_error("ranks planned different steps from equal length tables");
#endif
}

// A micro-batch's loss weights as a tensor beside its loss mask: omega where the mask is set, 0 elsewhere.
void add_token_weights(PackedMicroBatch& micro_batch, const MicroBatchLoss& loss) {
  const Column* mask = micro_batch.find(loss_mask_field);
  if (mask == nullptr || micro_batch.find(loss_weights_field) != nullptr) return;
  Column weights({std::string(loss_weights_field), DType::float32, FieldKind::token, {}}, mask->rows());
  const std::span<float> values = weights.values<float>();
  for (std::size_t i = 0; i < loss.token_weights.size(); ++i) {
    const RowRange rows = micro_batch.layout.local_range(static_cast<std::int64_t>(i));
    const auto weight = static_cast<float>(loss.token_weights[i]);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      if (is_set(*mask, row)) values[static_cast<std::size_t>(row)] = weight;
    }
  }
  micro_batch.fields.push_back(std::move(weights));
}

std::vector<FieldSpec> at_least_tokens(std::vector<FieldSpec> fields) {
  if (fields.empty()) fields.push_back({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  return fields;
}

}  // namespace

/// What planning decides: who gets what, and the micro-batches of this rank's DP rank.
struct DataService::Planned {
  Partition assignment;
  DpRankPlan mine;
};

DataService::DataService(const boost::mpi::communicator& world, const Config& config)
    : mesh_(world, config.grid(world.size())),
      config_(config),
      settings_(config.plan_settings(mesh_.grid().sizes())) {
  settings_.validate();
}

Step DataService::step(const Reader& read) {
  Stopwatch stopwatch;
  RaggedBatch mine;
  const std::optional<ErrorReport> error = try_locally([&] {
    mine = read();
    require_valid_samples(mine);
  });
  return run_step(mine, error, stopwatch.lap());
}

Step DataService::step(const RaggedBatch& mine) {
  return run_step(mine, try_locally([&] { require_valid_samples(mine); }), 0);
}

Step DataService::run_step(const RaggedBatch& mine, const std::optional<ErrorReport>& error,
                           double read_seconds) {
  Step step;
  step.index = next_step_;
  step.seconds.read = read_seconds;
  Stopwatch stopwatch;
  step.table = gather_lengths(mesh_.world(), error ? std::vector<SampleLengths>{} : lengths_of(mine), error);
  const std::vector<FieldSpec> fields = at_least_tokens(agree_on_fields(mesh_.world(), mine));
  step.seconds.gather = stopwatch.lap();

  Planned planned = plan(step.table);
  step.assignment = std::move(planned.assignment);
  step.plan = std::move(planned.mine);
  step.seconds.plan = stopwatch.lap();

  const StepTransfer transfer{step.table,  step.assignment,         fields,
                              mine,        step.plan.micro_batches, settings_.alignment(),
                              settings_.cp};
  step.volume = exchange_samples(mesh_, transfer, {config_.pack.pad_token, config_.pack.label_pad},
                                 exchange_options(), step.micro_batches);
  step.losses = loss_weights(step.table, step.plan.micro_batches, config_.loss, settings_.dp);
  for (std::size_t m = 0; m < step.losses.size(); ++m)
    add_token_weights(step.micro_batches[m], step.losses[m]);
  step.seconds.exchange = stopwatch.lap();
  ++next_step_;
  return step;
}

RaggedBatch DataService::collect(const Step& step, const StepResults& results) const {
  const ResultTransfer transfer{step.table, step.assignment, step.plan.micro_batches, settings_.alignment(),
                                settings_.cp};
  return return_results(mesh_, transfer, results.micro_batches(), exchange_options());
}

ExchangeOptions DataService::exchange_options() const noexcept {
  return {config_.exchange.path, default_max_message_bytes};
}

DataService::Planned DataService::plan(const LengthTable& table) const {
  require_samples_fit(table, settings_);
  Planned planned{assign_to_dp_ranks(table, settings_), {}};
  const std::span<const Item> entries = planned.assignment[mesh_.here().dp];
  const GroupCount count = count_micro_batches(table, entries, settings_);
  const auto largest =
      boost::mpi::all_reduce(mesh_.along(Axis::dp), count.needed, boost::mpi::maximum<std::int64_t>());
  const std::int64_t agreed = agreed_count(largest, settings_);
  require_equal_plans(mesh_.world(), plan_hash(planned.assignment, agreed));
  planned.mine = {count.lower_bound, count.needed, plan_micro_batches(table, entries, agreed, settings_)};
  return planned;
}

void require_valid_samples(const RaggedBatch& batch) {
  if (batch.size() == 0) return;
  const Column& tokens = batch.at(input_ids_field);
  if (tokens.spec() != FieldSpec{std::string(input_ids_field), DType::int64, FieldKind::token, {}}) {
    throw InputError("field 'input_ids'", "must be an int64 token field without trailing dimensions");
  }
  const std::span<const std::int64_t> values = tokens.values<std::int64_t>();
  const auto negative = std::ranges::find_if(values, [](std::int64_t token) { return token < 0; });
  if (negative == values.end()) return;
  const std::int64_t row = negative - values.begin();
  const auto after = std::ranges::upper_bound(batch.token_offsets(), row);
  const auto sample = static_cast<std::size_t>(after - batch.token_offsets().begin() - 1);
  throw InputError("sample " + std::to_string(batch.samples()[sample].id.value()),
                   "token " + std::to_string(*negative) + " is negative", "Token ids start at 0");
}

}  // namespace evenkeel
