#include "evenkeel/service/data_service.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <chrono>
#include <stdexcept>

#include "evenkeel/exchange/field_agreement.hpp"
#include "evenkeel/exchange/length_gather.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/plan/loss_tokens.hpp"

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

std::int64_t loss_tokens_of(std::span<const SampleShape> samples) {
  std::int64_t tokens = 0;
  for (const SampleShape& sample : samples) tokens += loss_tokens(sample);
  return tokens;
}

std::vector<double> loss_weights_of(const Step& step, int dp) {
  std::int64_t all = 0;
  for (const LengthEntry& entry : step.table.entries()) all += loss_tokens(entry.shape);
  std::vector<double> weights;
  for (const PackedMicroBatch& m : step.micro_batches)
    weights.push_back(loss_weight(loss_tokens_of(m.samples), all, dp));
  return weights;
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
  step.table = gather_lengths(mesh_.world(), mine.samples(), error);
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
  step.loss_weights = loss_weights_of(step, settings_.dp);
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

double loss_weight(std::int64_t micro_batch_loss_tokens, std::int64_t step_loss_tokens, int dp) noexcept {
  if (step_loss_tokens == 0) return 0;
  return static_cast<double>(dp) * static_cast<double>(micro_batch_loss_tokens) /
         static_cast<double>(step_loss_tokens);
}

}  // namespace evenkeel
