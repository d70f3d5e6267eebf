#include "evenkeel/service/data_service.hpp"

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "evenkeel/base/narrow.hpp"
#include "evenkeel/batch/mask.hpp"
#include "evenkeel/exchange/field_agreement.hpp"
#include "evenkeel/exchange/length_gather.hpp"
#include "evenkeel/exchange/node_dealing.hpp"
#include "evenkeel/exchange/prefix_trees.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/plan/fastest_count.hpp"
#include "evenkeel/service/config_file.hpp"
#include "service/equal_on_ranks.hpp"
#include "service/regroup.hpp"
#include "service/stopwatch.hpp"
#include "service/time_reports.hpp"

namespace evenkeel {
namespace {

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

// The rows of a sample's loss mask.
RowRange weighed_rows(const PackedMicroBatch& micro_batch, std::size_t sample) {
  if (!micro_batch.shared) return micro_batch.layout.local_range(static_cast<std::int64_t>(sample));
  return {micro_batch.shared->prediction_offsets[sample], micro_batch.shared->prediction_offsets[sample + 1]};
}

// A micro-batch's loss weights as a tensor beside its loss mask: omega where the mask is set, 0 elsewhere.
// Samples have rows one after the other; fillers, which have no loss, those behind them.
void set_token_weights(PackedMicroBatch& micro_batch, const MicroBatchLoss& loss) {
  const Column* mask = micro_batch.find(loss_mask_field);
  if (mask == nullptr) return;
  Column weights = Column::unwritten({std::string(loss_weights_field), DType::float32, mask->spec().kind, {}},
                                     mask->rows());
  const std::span<float> values = weights.values<float>();
  std::int64_t written = 0;
  for (std::size_t i = 0; i < loss.token_weights.size(); ++i) {
    const RowRange rows = weighed_rows(micro_batch, i);
    assert(rows.begin == written);
    write_where_set(
        *mask, rows, static_cast<float>(loss.token_weights[i]),
        values.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size())));
    written = rows.end;
  }
  std::ranges::fill(values.subspan(static_cast<std::size_t>(written)), 0.0F);
  std::erase_if(micro_batch.fields, [](const Column& c) { return c.spec().name == loss_weights_field; });
  micro_batch.fields.push_back(std::move(weights));
}

std::vector<FieldSpec> at_least_tokens(std::vector<FieldSpec> fields) {
  if (fields.empty()) fields.push_back({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  return fields;
}

std::vector<FieldSpec> specs_of(std::span<const Column> columns) {
  std::vector<FieldSpec> specs;
  for (const Column& column : columns) specs.push_back(column.spec());
  return specs;
}

// Whether every sequence of a pass has the rows on each rank that it has in another pass.
bool cut_alike(const Step& one, const Step& other, const PlanSettings& settings,
               const PlanSettings& other_settings) {
  return settings.cp == other_settings.cp && one.dealt.shares == other.dealt.shares &&
         one.dealt.segments == other.dealt.segments;
}

// Before anything that depends on the configuration communicates.
const Config& equal_on_ranks(const boost::mpi::communicator& world, const Config& config) {
  require_equal_on_ranks(world, together(world, [&] { return list_settings(config); }),
                         "Give every rank the same configuration: read it on one rank and broadcast it");
  return config;
}

std::string under(std::string_view profile) {
  return profile.empty() ? "the configuration's own settings" : "profile '" + std::string(profile) + "'";
}

// Ranks have equal configurations, so all throw or none does.
const RaggedBatch& kept_samples(const Step& step) {
  if (step.samples) return *step.samples;
  throw InputError("step " + std::to_string(step.index), "has no samples to be dealt anew",
                   "Take it from a service of the same configuration: a step has its samples where there are "
                   "profiles");
}

void require_addable(const LengthTable& table, WorldRank rank, std::int64_t owned, const RaggedBatch& added) {
  if (added.fields().empty()) return;
  for (const std::string_view name : {input_ids_field, loss_mask_field}) {
    if (added.find(name) == nullptr) continue;
    throw InputError("field '" + std::string(name) + "'", "cannot be added to a step that is planned with it",
                     "Bring it with the samples");
  }
  if (added.size() != owned) {
    throw InputError("added fields", "are of " + std::to_string(added.size()) +
                                         " samples; this rank brought " + std::to_string(owned));
  }
  for (const LengthEntry& entry : table.entries()) {
    if (entry.owner != rank || added.samples()[static_cast<std::size_t>(entry.owner_index)] == entry.shape)
      continue;
    throw InputError("added fields", "are not in the order in which the samples were brought: sample " +
                                         std::to_string(entry.shape.id.value()) + " is elsewhere");
  }
}

// Entry by entry, over lists of equal length. Collective.
std::vector<std::int64_t> largest_of(const boost::mpi::communicator& comm,
                                     const std::vector<std::int64_t>& mine) {
  std::vector<std::int64_t> largest(mine.size());
  boost::mpi::all_reduce(comm, mine.data(), narrow<int>(std::ssize(mine), "counts"), largest.data(),
                         boost::mpi::maximum<std::int64_t>());
  return largest;
}

std::vector<int> dp_of_ranks(const Grid& grid) {
  std::vector<int> dp;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) dp.push_back(grid.point_of(WorldRank{rank}).dp);
  return dp;
}

std::vector<std::int64_t> no_halo(const PackedMicroBatch& micro_batch) {
  return std::vector<std::int64_t>(packed_runs(micro_batch.layout, micro_batch.cp_rank).size());
}

}  // namespace

PhaseSeconds& PhaseSeconds::operator+=(const PhaseSeconds& other) noexcept {
  read += other.read;
  gather += other.gather;
  plan += other.plan;
  agree += other.agree;
  exchange += other.exchange;
  pack += other.pack;
  return *this;
}

DataService::DataService(const boost::mpi::communicator& world, const Config& config)
    : config_(equal_on_ranks(world, config)),
      mesh_(world, config_.grid(world.size())),
      dp_of_rank_(dp_of_ranks(mesh_.grid())),
      time_reports_(std::make_shared<TimeReports>(config)) {
  plan_settings().validate();
  for (const auto& entry : config_.profiles) plan_settings(entry.first).validate();
  prepare_exchange(mesh_.world(), exchange_options());
}

PlanSettings DataService::plan_settings(std::string_view profile) const {
  PlanSettings settings = config_.plan_settings(mesh_.grid().sizes(), profile);
  settings.dp_of_rank = dp_of_rank_;
  settings.node_of_rank.assign(mesh_.nodes().begin(), mesh_.nodes().end());
  const CostInUse cost = cost_in_use(profile);
  settings.balance.cost = cost.model;
  settings.overhead = cost.overhead();
  return settings;
}

CostInUse DataService::cost_in_use(std::string_view profile) const {
  if (time_reports_->wanted(profile)) return time_reports_->in_use(profile);
  CostInUse configured;
  configured.model = config_.profile(profile).balance.cost;
  return configured;
}

void DataService::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  const std::string where = "time of micro-batch " + std::to_string(micro_batch);
  if (micro_batch >= step.plan.micro_batches.size()) {
    throw InputError(where, "there are " + std::to_string(step.plan.micro_batches.size()) + " in step " +
                                std::to_string(step.index));
  }
  if (!std::isfinite(seconds) || seconds <= 0)
    throw InputError(where, std::to_string(seconds) + " seconds are no time", "Report seconds above 0");
  const MicroBatchPlan& plan = step.plan.micro_batches[micro_batch];
  if (plan.empty() || !time_reports_->wanted(step.profile)) return;
  // Not plan_settings(): another thread may be measuring.
  const PlanSettings settings = config_.plan_settings(mesh_.grid().sizes(), step.profile);
  time_reports_->add(step.profile,
                     observe(step.table, step.dealt, plan, settings, DpRank{mesh_.here().dp}, seconds));
}

Step DataService::step(const Reader& read, std::string_view profile) {
  Stopwatch stopwatch;
  RaggedBatch mine;
  const std::optional<ErrorReport> error = try_locally([&] {
    mine = read();
    require_valid_samples(mine);
  });
  return run_step(std::move(mine), error, profile, stopwatch.lap());
}

Step DataService::step(RaggedBatch mine, std::string_view profile) {
  Stopwatch stopwatch;
  const std::optional<ErrorReport> error = try_locally([&] { require_valid_samples(mine); });
  return run_step(std::move(mine), error, profile, stopwatch.lap());
}

Step DataService::run_step(RaggedBatch mine, const std::optional<ErrorReport>& error,
                           std::string_view profile, double read_seconds) {
  Stopwatch stopwatch;
  const std::string call = "step " + std::to_string(next_step_) + " of new samples under " + under(profile);
  // Nothing that depends on the profile communicates before all ranks are known to name the same one.
  GatheredLengths gathered =
      gather_lengths(mesh_.world(), error ? std::vector<SampleLengths>{} : lengths(mine), fields_of(mine),
                     error ? error : missing_profile(profile), call);
  time_reports_->begin_step(mesh_.world(), profile);
  const PlanSettings settings = plan_settings(profile);
  Step step;
  step.index = next_step_;
  step.profile = profile;
  step.cost = cost_in_use(profile);
  step.seconds.read = read_seconds;
  step.table = std::move(gathered.table);
  step.fields = at_least_tokens(std::move(gathered.fields));
  if (config_.prefix == PrefixSharing::trees)
    step.trees = agree_on_trees(mesh_.world(), step.table, mine, exchange_options());
  step.seconds.gather = stopwatch.lap();
  plan(step, settings, stopwatch);
  exchange(step, settings, mine);
  step.seconds.exchange = stopwatch.lap();
  weigh(step, settings);
  step.seconds.pack = stopwatch.lap();
  step.waited = step.seconds.total();
  if (!config_.profiles.empty()) step.samples = std::make_shared<const RaggedBatch>(std::move(mine));
  ++next_step_;
  return step;
}

Step DataService::step(Step before, std::string_view profile, const RaggedBatch& added) {
  Stopwatch stopwatch;
  const std::vector<FieldSpec> added_fields = agree_on_pass(before, profile, added);
  time_reports_->begin_step(mesh_.world(), profile);
  const PlanSettings settings = plan_settings(profile);
  Step step;
  step.index = before.index;
  step.profile = profile;
  step.cost = cost_in_use(profile);
  step.table = std::move(before.table);
  step.fields = std::move(before.fields);
  step.trees = std::move(before.trees);
  step.samples = std::move(before.samples);
  step.seconds.gather = stopwatch.lap();
  plan(step, settings, stopwatch);
  const bool alike = cut_alike(before, step, plan_settings(before.profile), settings);
  if (alike && step.plan == before.plan) {
    step.micro_batches = std::move(before.micro_batches);
  } else if (alike && !step.dealt.shared) {
    put_together_anew(before, step, settings);
    step.seconds.pack = stopwatch.lap();
  } else {
    exchange(step, settings, kept_samples(step));
  }
  if (!added_fields.empty()) add_fields(step, settings, added_fields, added);
  step.seconds.exchange = stopwatch.lap();
  weigh(step, settings);
  step.seconds.pack += stopwatch.lap();
  step.waited = step.seconds.total();
  return step;
}

RaggedBatch DataService::collect(const Step& step, const StepResults& results) const {
  const PlanSettings settings = plan_settings(step.profile);
  const ResultTransfer transfer{step.table, step.dealt, step.plan.micro_batches, settings.alignment(),
                                settings.cp};
  return return_results(mesh_, transfer, results.micro_batches(), exchange_options());
}

ExchangeOptions DataService::exchange_options() const noexcept {
  return {config_.exchange.path, default_max_message_bytes, config_.exchange.tp_copies,
          config_.exchange.aggregate};
}

void DataService::plan(Step& step, const PlanSettings& settings, Stopwatch& stopwatch) const {
  const DpRank rank{mesh_.here().dp};
  step.dealt = deal_on_node(mesh_.node(), step.table, settings, step.index, step.trees);
  const std::vector<GroupCount> own = count_micro_batches(step.table, step.dealt, rank, settings);
  step.seconds.plan = stopwatch.lap();
  const std::vector<std::int64_t> agreed = agree_on_counts(step, own, settings);
  step.seconds.agree = stopwatch.lap();
  step.plan = plan_dp_rank(step.table, step.dealt, rank, own, agreed, settings);
  step.seconds.plan += stopwatch.lap();
}

std::vector<std::int64_t> DataService::agree_on_counts(const Step& step, std::span<const GroupCount> own,
                                                       const PlanSettings& settings) const {
  const boost::mpi::communicator& ranks = mesh_.along(Axis::dp);
  std::vector<std::int64_t> needed;
  for (const GroupCount& count : own) needed.push_back(count.needed);
  std::vector<std::int64_t> agreed = agreed_counts(largest_of(ranks, needed), settings);
  if (settings.micro_batch.count == CountRule::fastest) {
    const DpRank rank{mesh_.here().dp};
    const std::vector<Cost> times = times_at_counts(step.table, step.dealt, rank, agreed, settings);
    agreed = fastest_counts(largest_of(ranks, times), agreed, settings);
  }
  require_equal_plans(mesh_.world(), plan_hash(step.dealt.shares, agreed));
  return agreed;
}

StepTransfer DataService::transfer_of(const Step& step, const PlanSettings& settings,
                                      std::span<const FieldSpec> fields, const RaggedBatch& mine) const {
  return {step.table, step.dealt, fields, mine, step.plan.micro_batches, settings.alignment(), settings.cp};
}

void DataService::exchange(Step& step, const PlanSettings& settings, const RaggedBatch& mine) const {
  step.volume = exchange_samples(mesh_, transfer_of(step, settings, step.fields, mine),
                                 derived_options(step.profile), exchange_options(), step.micro_batches);
}

void DataService::put_together_anew(const Step& before, Step& step, const PlanSettings& settings) const {
  const RaggedBatch nothing;
  const StepTransfer transfer = transfer_of(step, settings, step.fields, nothing);
  for (const MicroBatchPlan& plan : step.plan.micro_batches) {
    PackedMicroBatch& m = step.micro_batches.emplace_back(lay_out_micro_batch(mesh_, transfer, plan));
    // Only filler has nothing to copy its rows from.
    if (plan.tokens == 0) complete_fields(m, no_halo(m), derived_options(step.profile));
  }
  regroup(before.micro_batches, before.plan.micro_batches, step.micro_batches, step.plan.micro_batches);
}

std::vector<FieldSpec> DataService::agree_on_pass(const Step& before, std::string_view profile,
                                                  const RaggedBatch& added) const {
  const std::int64_t owned = std::ranges::count(before.table.entries(), mesh_.rank(), &LengthEntry::owner);
  std::optional<ErrorReport> error = missing_profile(profile);
  if (!error) error = try_locally([&] { require_addable(before.table, mesh_.rank(), owned, added); });
  const std::string call = "another pass over step " + std::to_string(before.index) +
                           ", which was made under " + under(before.profile) + ", under " + under(profile);
  return agree_on_fields(mesh_.world(), owned == 0 ? std::nullopt : std::optional(specs_of(added.fields())),
                         error, call);
}

std::optional<ErrorReport> DataService::missing_profile(std::string_view profile) const {
  return try_locally([&] { static_cast<void>(config_.profile(profile)); });
}

void DataService::add_fields(Step& step, const PlanSettings& settings, std::span<const FieldSpec> fields,
                             const RaggedBatch& added) const {
  std::vector<PackedMicroBatch> columns;
  const ExchangeVolume volume = exchange_samples(mesh_, transfer_of(step, settings, fields, added),
                                                 derived_options(step.profile), exchange_options(), columns);
  for (std::size_t m = 0; m < columns.size(); ++m) {
    for (Column& column : columns[m].fields) {
      const std::string& name = column.spec().name;
      if (std::ranges::find(fields, name, &FieldSpec::name) == fields.end()) continue;  // derived
      std::erase_if(step.micro_batches[m].fields, [&](const Column& c) { return c.spec().name == name; });
      step.micro_batches[m].fields.push_back(std::move(column));
    }
  }
  step.volume += volume;
}

void DataService::weigh(Step& step, const PlanSettings& settings) const {
  step.losses = loss_weights(step.table, step.dealt, step.plan.micro_batches,
                             config_.profile(step.profile).loss, settings.dp);
  const bool brought =
      std::ranges::find(step.fields, loss_weights_field, &FieldSpec::name) != step.fields.end();
  if (brought) return;
  for (std::size_t m = 0; m < step.losses.size(); ++m)
    set_token_weights(step.micro_batches[m], step.losses[m]);
}

std::vector<SampleLengths> DataService::lengths(const RaggedBatch& mine) const {
  return config_.prefix == PrefixSharing::none ? lengths_of(mine) : lengths_for_sharing(mine);
}

DerivedFieldOptions DataService::derived_options(std::string_view profile) const {
  const PackConfig pack = config_.profile(profile).pack;
  return {pack.pad_token, pack.label_pad};
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
