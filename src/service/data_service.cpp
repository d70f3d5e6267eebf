#include "evenkeel/service/data_service.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <functional>
#include <iterator>
#include <random>
#include <ranges>
#include <stdexcept>
#include <utility>

#include "evenkeel/base/hash.hpp"
#include "evenkeel/batch/mask.hpp"
#include "evenkeel/config/file.hpp"
#include "evenkeel/exchange/field_agreement.hpp"
#include "evenkeel/exchange/length_gather.hpp"
#include "evenkeel/exchange/node_assignment.hpp"
#include "evenkeel/exchange/prefix_trees.hpp"
#include "evenkeel/exchange/rank_peers.hpp"
#include "evenkeel/mesh/mpi_call.hpp"
#include "exchange/shared_rows.hpp"
#include "service/equal_on_ranks.hpp"
#include "service/regroup.hpp"
#include "service/sample_checks.hpp"
#include "service/stopwatch.hpp"
#include "service/time_reports.hpp"

namespace evenkeel {
namespace {

// Every rank plans from equal input, so different plans are a bug; debug builds look, unless a rank has
// failed.
void require_equal_plans([[maybe_unused]] const boost::mpi::communicator& world,
                         [[maybe_unused]] std::uint64_t hash, [[maybe_unused]] bool failed) {
#ifndef NDEBUG
  const auto word = static_cast<std::int64_t>(hash);
  const std::array<std::int64_t, 3> here{failed ? 1 : 0, word, ~word};
  std::array<std::int64_t, 3> most{};
  check_mpi(MPI_Allreduce(here.data(), most.data(), 3, MPI_INT64_T, MPI_MAX, world), "MPI_Allreduce");
  if (most[0] == 0 && most[1] != ~most[2])
    throw std::logic_error("ranks planned different steps from equal length tables");
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
  return settings.cp == other_settings.cp && one.assignment.shares == other.assignment.shares &&
         one.assignment.segments == other.assignment.segments;
}

// Ranks have equal configurations, so all throw or none does.
const RaggedBatch& kept_samples(const Step& step) {
  if (step.samples) return *step.samples;
  throw InputError("step " + std::to_string(step.index), "has no samples to be assigned anew",
                   "Take it from a service of the same configuration: a step has its samples where there are "
                   "profiles");
}

// Configurations are compared before anything that depends on them communicates.
Grid grid_over(const boost::mpi::communicator& world, const Config& config) {
  require_ranks_of_one_group(world);
  require_equal_on_ranks(world, together(world, [&] { return list_settings(config); }),
                         "Give every rank the same configuration: read it on one rank and broadcast it");
  Grid grid;
  fail_together(world, try_on_replicated_data([&] { grid = config.grid(world.size()); }));
  return grid;
}

// A number that no other service has.
std::uint64_t draw_number(const boost::mpi::communicator& world) {
  std::uint64_t number = 0;
  GuardedWork work;
  if (world.rank() == 0) {
    work([&] {
      std::random_device device;
      number = std::uint64_t{device()} << 32 | device() | 1;
    });
  }
  work.agree(world);
  check_mpi(MPI_Bcast(&number, 1, MPI_UINT64_T, 0, world), "MPI_Bcast");
  return number;
}

std::string under(std::string_view profile) {
  return profile.empty() ? std::string() : " under profile '" + std::string(profile) + "'";
}

std::string name_of(const Step& step) {
  return "step " + std::to_string(step.index) +
         (step.profile.empty() ? std::string() : " (profile '" + step.profile + "')");
}

void require_made(const Step& step) {
  if (step.origin.known()) return;
  throw InputError("step", "has been moved from, or was never made",
                   "A step that is handed on to another pass is gone: use the one that comes back");
}

std::vector<int> dp_of_ranks(const Grid& grid) {
  std::vector<int> dp;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) dp.push_back(grid.point_of(WorldRank{rank}).dp);
  return dp;
}

std::vector<std::int64_t> no_halo(const PackedMicroBatch& micro_batch) {
  return std::vector<std::int64_t>(packed_runs(micro_batch.layout, micro_batch.cp_rank).size());
}

// Moves the columns of these fields from `columns` to `micro_batches`, in the place of those of their names.
void replace_fields(std::span<PackedMicroBatch> micro_batches, std::span<PackedMicroBatch> columns,
                    std::span<const FieldSpec> fields) {
  const auto is_added = [&](const Column& column) {
    return std::ranges::find(fields, column.spec().name, &FieldSpec::name) != fields.end();
  };
  for (std::size_t m = 0; m < columns.size(); ++m) {
    // Also on pipeline stages that are not sent them: what they have of these names is derived.
    std::erase_if(micro_batches[m].fields, is_added);
    std::ranges::move(columns[m].fields | std::views::filter(is_added),
                      std::back_inserter(micro_batches[m].fields));
  }
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
    : mesh_(world, grid_over(world, config)) {
  fail_together(mesh_.world(), try_on_replicated_data([&] {
                  config_ = config;
                  dp_of_rank_ = dp_of_ranks(mesh_.grid());
                  time_reports_ = std::make_shared<TimeReports>(config);
                  passes_ = std::make_shared<std::atomic<std::uint64_t>>(0);
                  plan_settings().validate();
                  for (const auto& entry : config_.profiles) plan_settings(entry.first).validate();
                }));
  number_ = draw_number(mesh_.world());
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
  require_made(step);
  const std::string where = "time of micro-batch " + std::to_string(micro_batch);
  if (micro_batch >= step.plan.micro_batches.size()) {
    throw InputError(where,
                     "there are " + std::to_string(step.plan.micro_batches.size()) + " in " + name_of(step));
  }
  if (!std::isfinite(seconds) || seconds <= 0)
    throw InputError(where, std::to_string(seconds) + " seconds are no time", "Report seconds above 0");
  const MicroBatchPlan& plan = step.plan.micro_batches[micro_batch];
  if (plan.empty() || !time_reports_->wanted(step.profile)) return;
  // Not plan_settings(): another thread may be measuring.
  const PlanSettings settings = config_.plan_settings(mesh_.grid().sizes(), step.profile);
  time_reports_->add(step.profile,
                     observe(step.table, step.assignment, plan, settings, DpRank{mesh_.here().dp}, seconds));
}

struct DataService::Making {
  Step step;
  PlanSettings settings;
  DerivedFieldOptions derived;
  std::uint64_t cut = 0;  // see cut_hash()
  RaggedBatch nothing;
  GuardedWork work;
  Stopwatch stopwatch;
};

Step DataService::step(const Reader& read, std::string_view profile) {
  Stopwatch stopwatch;
  std::optional<RaggedBatch> mine;
  GuardedWork work;
  work([&] {
    mine = read();
    prepare_samples(*mine, config_.prefix != PrefixSharing::none);
  });
  return run_step(std::move(mine), work, profile, stopwatch.lap());
}

Step DataService::step(RaggedBatch mine, std::string_view profile) {
  Stopwatch stopwatch;
  GuardedWork work;
  work([&] { prepare_samples(mine, config_.prefix != PrefixSharing::none); });
  return run_step(std::move(mine), work, profile, stopwatch.lap());
}

void DataService::begin(std::optional<Making>& making, std::string_view profile, GuardedWork& work) const {
  work.on_replicated_data([&] {
    making.emplace();
    making->settings = plan_settings(profile);
    making->derived = derived_options(profile);
    making->cut = cut_hash(making->settings);
    making->step.profile = profile;
  });
}

Step DataService::run_step(std::optional<RaggedBatch> mine, GuardedWork& work, std::string_view profile,
                           double read_seconds) {
  std::optional<Making> begun;
  begin(begun, profile, work);
  std::vector<SampleSummary> lengths_of_mine;
  std::optional<std::vector<FieldSpec>> fields;
  CallKey call;
  work([&] {
    lengths_of_mine = lengths(*mine);
    fields = fields_of(*mine);
    call.text = "makes step " + std::to_string(next_step_) + under(profile);
    call.words.front() = fnv1a_64(call.text);
  });
  GatheredLengths gathered =
      gather_lengths(mesh_.world(), lengths_of_mine, std::move(fields), work.error(), call);
  // Nobody has failed so far.
  Making& making = *begun;
  Step& step = making.step;
  step.index = next_step_;
  step.origin = {number_, ++*passes_, making.cut};
  step.table = std::move(gathered.table);
  making.work([&] { step.fields = at_least_tokens(std::move(gathered.fields)); });
  use_measured_cost(making);
  if (config_.prefix == PrefixSharing::trees)
    step.trees = gather_prefix_trees(mesh_.world(), step.table, *mine, exchange_options());
  step.seconds.read = read_seconds;
  step.seconds.gather = making.stopwatch.lap();
  plan(making);
  const auto finish = [&] {
    step.seconds.exchange = making.stopwatch.lap();
    set_loss_weights(step, making.settings);
    if (!config_.profiles.empty()) step.samples = std::make_shared<const RaggedBatch>(*std::move(mine));
    step.seconds.pack = making.stopwatch.lap();
  };
  require_shared_rows(making, step.fields, *mine);
  step.volume =
      exchange_samples(mesh_, transfer_of(step, making.settings, step.fields, *mine), making.derived,
                       exchange_options(), step.micro_batches, making.work, std::ref(finish));
  step.seconds.exchange += making.stopwatch.lap();  // the wait for the last rank
  step.waited = step.seconds.total();
  ++next_step_;
  return std::move(step);
}

Step DataService::step(Step before, std::string_view profile, const RaggedBatch& added) {
  GuardedWork work;
  std::optional<Making> begun;
  FieldsBrought brought;
  work([&] { require_made(before); });
  begin(begun, profile, work);
  work([&] {
    brought.call = key_of("passes over", before, under(profile));
    const std::int64_t owned = std::ranges::count(before.table.entries(), mesh_.rank(), &LengthEntry::owner);
    require_addable(before.table, mesh_.rank(), owned, added);
    if (owned > 0) brought.fields = specs_of(added.fields());
  });
  const std::vector<FieldSpec> fields = agree_on_fields(mesh_.world(), std::move(brought), work.error());
  // Nobody has failed so far.
  Making& making = *begun;
  Step& step = making.step;
  step.index = before.index;
  step.origin = {number_, ++*passes_, making.cut};
  step.table = std::move(before.table);
  step.fields = std::move(before.fields);
  step.trees = std::move(before.trees);
  step.samples = std::move(before.samples);
  use_measured_cost(making);
  plan(making);
  pass_on(before, making);
  add_fields(making, fields, added);
  step.waited = step.seconds.total();
  return std::move(step);
}

RaggedBatch DataService::collect(const Step& step, const StepResults& results) const {
  PlanSettings settings;
  CallKey call;
  GuardedWork work;
  work([&] { require_made(step); });
  work.on_replicated_data([&] { settings = plan_settings(step.profile); });
  work([&] { call = key_of("collects", step, {}); });
  if (reports_results(mesh_)) work.add(results.error());
  const ResultTransfer transfer{step.table, step.assignment, step.plan.micro_batches,
                                work.failed() ? 1 : settings.alignment(), settings.cp};
  return return_results(mesh_, transfer, results.micro_batches(), exchange_options(), std::move(call),
                        work.error());
}

// What a step was made for is what decides where its samples' rows are.
CallKey DataService::key_of(std::string_view action, const Step& step, std::string_view how) const {
  if (step.origin.cut() != cut_hash(plan_settings(step.profile))) {
    throw InputError(name_of(step), "was made by a service of another mesh or configuration",
                     "Use a service with the configuration of the one that made it");
  }
  const std::string text = std::string(action) + " " + name_of(step) + std::string(how);
  return {{step.origin.service(), step.origin.serial(), fnv1a_64(text)}, text};
}

std::uint64_t DataService::cut_hash(const PlanSettings& settings) const {
  Fnv1a hash;
  for (const int size :
       {mesh_.grid().sizes().tp, mesh_.grid().sizes().cp, mesh_.grid().sizes().dp, mesh_.grid().sizes().pp})
    hash.add(std::int64_t{size});
  hash.add(mesh_.grid().order().text());
  hash.add(settings.alignment());
  hash.add(static_cast<std::int64_t>(settings.cp.layout));
  return hash.value();
}

// Collective where the profile's costs are measured.
void DataService::use_measured_cost(Making& making) {
  time_reports_->begin_step(mesh_.world(), making.step.profile);
  making.work.on_replicated_data([&] {
    making.step.cost = cost_in_use(making.step.profile);
    making.settings.balance.cost = making.step.cost.model;
    making.settings.overhead = making.step.cost.overhead();
  });
}

ExchangeOptions DataService::exchange_options() const noexcept {
  return {config_.exchange.path, default_max_message_bytes, config_.exchange.tp_copies,
          config_.exchange.aggregate};
}

void DataService::plan(Making& making) const {
  Step& step = making.step;
  GuardedWork& work = making.work;
  const StepProblem problem{step.table, making.settings, step.index, step.trees};
  const std::array own{DpRank{mesh_.here().dp}};
  assign_on_node(mesh_.node(), problem, step.assignment, work);
  RankPeers peers(mesh_.along(Axis::dp), work);
  StepPlan planned = plan_dp_ranks(problem, step.assignment, own, peers);
  require_equal_plans(mesh_.world(), work.failed() ? 0 : plan_hash(step.assignment.shares, planned.counts),
                      work.failed());
  work([&] { step.plan = std::move(planned.ranks.front()); });
  step.seconds.agree = peers.seconds();
  step.seconds.plan = making.stopwatch.lap() - peers.seconds();
}

StepTransfer DataService::transfer_of(const Step& step, const PlanSettings& settings,
                                      std::span<const FieldSpec> fields, const RaggedBatch& mine) const {
  return {step.table,           step.assignment, fields, mine, step.plan.micro_batches,
          settings.alignment(), settings.cp};
}

// Hands on what the pass before left on this rank or, where samples go elsewhere, has them sent again.
void DataService::pass_on(Step& before, Making& making) const {
  Step& step = making.step;
  GuardedWork& work = making.work;
  std::array<int, 2> mine{0, 0};  // whether sequences stay on their ranks, and in their micro-batches
  work([&] {
    const bool alike = cut_alike(before, step, plan_settings(before.profile), making.settings) &&
                       derived_options(before.profile) == making.derived;
    mine = {alike ? 1 : 0, alike && step.plan == before.plan ? 1 : 0};
    if (alike && before.micro_batches.size() != before.plan.micro_batches.size()) {
      throw InputError(name_of(before),
                       "has " + std::to_string(before.micro_batches.size()) + " of its " +
                           std::to_string(before.plan.micro_batches.size()) +
                           " micro-batches left to be passed over again",
                       "Leave them in the step");
    }
    if (alike) require_whole(before.micro_batches, step.fields, {mesh_.here().pp, mesh_.grid().sizes().pp});
  });
  // All ranks take the same way.
  work.agree(mesh_.world());
  if (step.assignment.shared()) {
    const int own = mine[1];
    check_mpi(MPI_Allreduce(&own, &mine[1], 1, MPI_INT, MPI_MIN, mesh_.world()), "MPI_Allreduce");
  }
  if (mine[1] != 0) {
    step.micro_batches = std::move(before.micro_batches);
  } else if (mine[0] != 0 && !step.assignment.shared()) {
    work([&] { regroup_locally(before, making); });
    step.seconds.pack = making.stopwatch.lap();
  } else {
    work.on_replicated_data([&] { static_cast<void>(kept_samples(step)); });
    const RaggedBatch& samples = step.samples ? *step.samples : making.nothing;
    require_shared_rows(making, step.fields, samples);
    step.volume = exchange_samples(mesh_, transfer_of(step, making.settings, step.fields, samples),
                                   making.derived, exchange_options(), step.micro_batches, work);
  }
}

void DataService::regroup_locally(const Step& before, Making& making) const {
  Step& step = making.step;
  const StepTransfer transfer = transfer_of(step, making.settings, step.fields, making.nothing);
  for (const MicroBatchPlan& plan : step.plan.micro_batches) {
    PackedMicroBatch& m =
        step.micro_batches.emplace_back(lay_out_micro_batch(mesh_, transfer, plan, making.derived));
    // Only filler has nothing to copy its rows from. It gets no fields that others have not: an earlier pass
    // may have added them, for the last pipeline stage alone.
    if (plan.tokens > 0) continue;
    complete_fields(m, step.fields, no_halo(m), making.derived);
    const PackedMicroBatch& like = before.micro_batches.front();
    std::erase_if(m.fields, [&](const Column& c) { return like.find(c.spec().name) == nullptr; });
  }
  regroup(before.micro_batches, before.plan.micro_batches, step.micro_batches, step.plan.micro_batches);
}

// Collective where samples share prefixes and bring such rows. They are compared by one plan, which all ranks
// have once none has failed.
void DataService::require_shared_rows(const Making& making, std::span<const FieldSpec> fields,
                                      const RaggedBatch& mine) const {
  if (config_.prefix == PrefixSharing::none || !have_shared_rows(fields)) return;
  making.work.agree(mesh_.world());
  require_equal_shared_rows(mesh_.world(), making.step.table, making.step.assignment, fields, mine);
}

// The last part of a later pass: fields that came up since, and the losses' weights.
void DataService::add_fields(Making& making, std::span<const FieldSpec> fields,
                             const RaggedBatch& added) const {
  Step& step = making.step;
  std::vector<PackedMicroBatch> columns;
  const auto finish = [&] {
    step.seconds.exchange += making.stopwatch.lap();
    replace_fields(step.micro_batches, columns, fields);
    set_loss_weights(step, making.settings);
    step.seconds.pack += making.stopwatch.lap();
  };
  if (fields.empty()) {
    making.work(finish);
    making.work.agree(mesh_.world());
  } else {
    require_shared_rows(making, fields, added);
    step.volume += exchange_samples(mesh_, transfer_of(step, making.settings, fields, added), making.derived,
                                    exchange_options(), columns, making.work, std::ref(finish));
  }
  step.seconds.exchange += making.stopwatch.lap();  // the wait for the last rank
}

void DataService::set_loss_weights(Step& step, const PlanSettings& settings) const {
  step.losses = loss_weights(step.table, step.assignment, step.plan.micro_batches,
                             config_.profile(step.profile).loss, settings.dp);
  for (std::size_t m = 0; m < step.losses.size(); ++m)
    set_token_weights(step.micro_batches[m], step.losses[m]);
}

std::vector<SampleSummary> DataService::lengths(const RaggedBatch& mine) const {
  return config_.prefix == PrefixSharing::none ? summaries_of(mine) : summaries_for_sharing(mine);
}

DerivedFieldOptions DataService::derived_options(std::string_view profile) const {
  const PackConfig pack = config_.profile(profile).pack;
  return {pack.pad_token, pack.label_pad};
}

}  // namespace evenkeel
