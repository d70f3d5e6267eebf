#include "service/step/step_maker.hpp"

#include <array>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "base/activity.hpp"
#include "base/hash.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/length_gather.hpp"
#include "exchange/gather/prefix_trees.hpp"
#include "exchange/gather/rank_peers.hpp"
#include "exchange/gather/row_count_gather.hpp"
#include "exchange/gather/row_cut_gather.hpp"
#include "exchange/gather/told_assignment.hpp"
#include "exchange/result_exchange.hpp"
#include "exchange/samples/shared_rows.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/loss_weights.hpp"
#include "plan/schedule/sample_summary.hpp"
#include "service/equal_on_ranks.hpp"
#include "service/step/sample_checks.hpp"
#include "service/step/token_weights.hpp"

namespace evenkeel {
namespace {

// Collective. Whether all ranks bring the same plan, or one has failed: every rank plans from equal input.
bool plans_are_equal(const Communicator& world, std::uint64_t hash, bool failed) {
  const auto word = static_cast<std::int64_t>(hash);
  std::array<std::int64_t, 3> most{failed ? 1 : 0, word, ~word};
  world.all_reduce(most, Extreme::largest);
  return most[0] != 0 || most[1] == ~most[2];
}

void add_tokens_if_empty(std::vector<FieldSpec>& fields) {
  if (fields.empty()) fields.push_back({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
}

// Configurations are compared before anything that depends on them communicates.
Grid grid_over(const Communicator& world, const Config& config) {
  require_ranks_of_one_group(world);
  require_equal_on_ranks(world, together(world, [&] { return list_settings(config); }),
                         "Give every rank the same configuration: read it on one rank and broadcast it");
  Grid grid;
  fail_together(world, try_on_replicated_data([&] { grid = config.grid(world.size()); }));
  return grid;
}

// A number that no other service has.
std::uint64_t draw_number(const Communicator& world) {
  std::uint64_t number = 0;
  GuardedWork work;
  if (world.rank() == 0) {
    work([&] {
      std::random_device device;
      number = std::uint64_t{device()} << 32 | device() | 1;
    });
  }
  work.agree(world);
  world.broadcast(number, 0);
  return number;
}

std::vector<int> dp_of_ranks(const Grid& grid) {
  std::vector<int> dp;
  for (int rank = 0; rank < grid.num_ranks(); ++rank) dp.push_back(grid.point_of(WorldRank{rank}).dp);
  return dp;
}

/// What a mesh has for micro-batches with groups of their own.
std::optional<ContextSizes> groups_of(const MeshSettings& mesh) {
  if (!mesh.flexible_cp) return std::nullopt;
  return mesh.context_sizes;
}

// Ranks beyond those of the grid have no place in it.
Mesh mesh_over(const Communicator& world, const Config& config) {
  const Grid grid = grid_over(world, config);
  return {world, grid, {world.size() - grid.num_ranks(), groups_of(config.mesh)}};
}

}  // namespace

std::string under_profile(std::string_view profile) {
  return profile.empty() ? std::string() : " under profile '" + std::string(profile) + "'";
}

std::string name_of(const Step& step) {
  return "step " + std::to_string(step.index) +
         (step.profile.empty() ? std::string() : " (profile '" + step.profile + "')");
}

void require_made(const Step& step) {
  if (step.record) return;
  throw InputError("step", "has been moved from, or was never made",
                   "A step that is handed on to another pass is gone: use the one that comes back");
}

StepMaker::StepMaker(const Communicator& world, const Config& config, const ServiceState& from, AssignedBy by)
    : mesh_(mesh_over(world, config)), assigned_by_(by) {
  fail_together(mesh_.everyone(), try_on_replicated_data([&] {
                  config_ = config;
                  dp_of_rank_ = dp_of_ranks(mesh_.grid());
                  time_reports_ = std::make_unique<TimeReports>(config, mesh_.grid().sizes(), from);
                  auto nothing = std::make_unique<StepRecord>();
                  nothing->samples = std::make_shared<const StepSamples>();
                  nothing_ = std::move(nothing);
                  plan_settings({}).validate();
                  for (const auto& entry : config_.profiles) plan_settings(entry.first).validate();
                  config_.require_valid_fields();
                  prepare_shapes(from);
                }));
  number_ = draw_number(mesh_.everyone());
  next_step_ = from.next_step;
  prepare_exchange(mesh_.everyone(), transport_settings());
  sends_messages_ = !moves_without_messages(mesh_.everyone(), transport_settings());
}

ServiceState StepMaker::state() const {
  ServiceState state = state_at(next_step_);
  state.costs = time_reports_->saved();
  if (shapes_) state.shapes = *shapes_;
  return state;
}

ServiceState StepMaker::state_at(std::int64_t step) const {
  ServiceState state;
  state.next_step = step;
  state.mesh = mesh_.grid().sizes();
  state.settings = list_settings(config_);
  return state;
}

PlanSettings StepMaker::plan_settings(std::string_view profile) const {
  PlanSettings settings = config_.plan_settings(mesh_.grid().sizes(), profile);
  settings.dp_of_rank = dp_of_rank_;
  const std::span<const int> nodes = mesh_.nodes().first(dp_of_rank_.size());
  settings.node_of_rank.assign(nodes.begin(), nodes.end());
  cost_in_use(profile).use_in(settings.balance);
  return settings;
}

CostInUse StepMaker::cost_in_use(std::string_view profile) const {
  if (time_reports_->wanted(profile)) return time_reports_->in_use(profile);
  CostInUse configured;
  configured.model = config_.profile(profile).balance.cost;
  return configured;
}

void StepMaker::report_time(const Step& step, std::size_t micro_batch, double seconds) const {
  require_made(step);
  const std::string where = "time of micro-batch " + std::to_string(micro_batch);
  const std::vector<MicroBatchPlan>& plans = step.record->plan.micro_batches;
  if (micro_batch >= plans.size())
    throw InputError(where, "there are " + std::to_string(plans.size()) + " in " + name_of(step));
  if (!std::isfinite(seconds) || seconds <= 0)
    throw InputError(where, std::to_string(seconds) + " seconds are no time", "Report seconds above 0");
  const MicroBatchPlan& plan = plans[micro_batch];
  if (plan.empty() || !time_reports_->wanted(step.profile)) return;
  // Not plan_settings(): another thread may be measuring.
  const PlanSettings settings = config_.plan_settings(mesh_.grid().sizes(), step.profile);
  time_reports_->add(step.profile, observe(step.record->table(), step.record->assignment, plan, settings,
                                           DpRank{mesh_.here().dp}, seconds));
}

void StepMaker::begin(std::optional<Making>& making, std::string_view profile, GuardedWork& work) const {
  work.on_replicated_data([&] {
    making.emplace();
    making->record = std::make_shared<StepRecord>();
    making->settings = plan_settings(profile);
    making->derived = derived_options(profile);
    making->record->origin.cut = cut_hash(making->settings);
    making->step.profile = profile;
  });
}

void StepMaker::number(Making& making, std::int64_t index) {
  making.step.index = index;
  making.record->origin.service = number_;
  making.record->origin.serial = ++passes_;
  making.step.num_samples = making.record->table().size();
  making.step.num_tokens = making.record->table().num_tokens();
}

// Collective. All ranks throw, or what comes back is of them all.
StepMaker::Gathered StepMaker::gather(const std::optional<RaggedBatch>& mine, std::string_view profile,
                                      GuardedWork& work) const {
  Gathered result;
  std::vector<SampleSummary> summaries;
  std::optional<std::vector<FieldSpec>> fields;
  CallKey call;
  work([&] {
    result.samples = std::make_shared<StepSamples>();
    result.ranges = OwnRanges(*mine, config_.fields, sends_messages_);
    summaries = config_.prefix == PrefixSharing::none ? summaries_of(*mine) : summaries_for_sharing(*mine);
    fields = fields_of(*mine);
    call.text = "makes step " + std::to_string(next_step_) + under_profile(profile);
    call.words.front() = fnv1a_64(call.text);
  });
  GatheredLengths gathered =
      gather_lengths(mesh_.everyone(), summaries, std::move(fields), work.error(), call);
  result.samples->table = std::move(gathered.table);
  result.fields = std::move(gathered.fields);
  result.samples->table.set_row_counts(
      gather_row_counts(mesh_.everyone(), result.samples->table, result.fields, *mine, config_.fields));
  return result;
}

Step StepMaker::first_pass(const std::function<RaggedBatch()>& read, std::string_view profile) {
  Phase phase("read samples", next_step_);
  Stopwatch stopwatch;
  GuardedWork work;
  std::optional<RaggedBatch> mine;
  std::optional<Making> begun;
  work([&] {
    mine = read();
    prepare_samples(*mine, config_.prefix != PrefixSharing::none);
  });
  const double read_seconds = stopwatch.lap();
  phase.becomes("gather lengths");
  begin(begun, profile, work);
  Gathered gathered = gather(mine, profile, work);
  const std::shared_ptr<StepSamples>& samples = gathered.samples;
  // Nobody has failed so far.
  Making& making = *begun;
  Step& step = making.step;
  making.record->samples = samples;
  number(making, next_step_);
  making.work([&] { add_tokens_if_empty(gathered.fields); });
  use_measured_cost(making);
  if (config_.prefix == PrefixSharing::trees)
    samples->trees = gather_prefix_trees(mesh_.everyone(), samples->table, *mine, transport_settings());
  step.seconds.read = read_seconds;
  step.seconds.gather = making.stopwatch.lap();
  phase.becomes("plan");
  plan(making);
  choose_shapes(making);
  phase.becomes("exchange");
  samples->fields = carried(making, gathered.fields, gathered.ranges);
  const auto last = [&] {
    step.seconds.exchange = making.stopwatch.lap();
    weigh_micro_batches(making);
    keep_samples(*samples, *mine);
    step.seconds.pack = making.stopwatch.lap();
  };
  require_shared_rows(making, have_shared_rows(gathered.fields), samples->fields, *mine);
  const std::vector<CarriedField> fields = sent(making, samples->fields);
  step.volume = exchange(making, transfer_of(making, fields, *mine, samples->table.row_counts()),
                         making.micro_batches, std::ref(last));
  step.seconds.exchange += making.stopwatch.lap();  // the wait for the last rank
  ++next_step_;
  shapes_ = making.record->shapes;
  return finish(making);
}

// With profiles, for passes that assign them anew: those that add fields to them share these columns.
void StepMaker::keep_samples(StepSamples& samples, RaggedBatch& mine) const {
  if (config_.profiles.empty()) return;
  for (Column& column : mine.fields()) static_cast<void>(column.lend());
  samples.mine = std::make_shared<const RaggedBatch>(std::move(mine));
}

RaggedBatch StepMaker::collect_on(const Step& step, const StepResults& results, int root,
                                  const GuardedWork& error) const {
  const Phase phase("collect results", step.index);
  GuardedWork work(error);
  work.on_replicated_data([&] {
    if (root >= 0 && root < mesh_.grid().num_ranks()) return;
    throw InputError("rank to collect on", std::to_string(root) + " is none of the mesh, which has " +
                                               std::to_string(mesh_.grid().num_ranks()));
  });
  std::string where;
  work([&] { where = " on rank " + std::to_string(root); });
  const RaggedBatch mine = bring_home(step, results, where, work);
  return gather_samples(mesh_.everyone(), mine, root, transport_settings());
}

RaggedBatch StepMaker::collect(const Step& step, const StepResults& results, const GuardedWork& error) const {
  return bring_home(step, results, {}, error);
}

RaggedBatch StepMaker::bring_home(const Step& step, const StepResults& results, std::string_view where,
                                  const GuardedWork& error) const {
  const Phase phase("collect results", step.index);
  PlanSettings settings;
  CallKey call;
  GuardedWork work(error);
  work.add(results.failure());
  work([&] { require_made(step); });
  work.on_replicated_data([&] { settings = plan_settings(step.profile); });
  work([&] { call = key_of("collects", step, where); });
  if (reports_results(mesh_)) {
    work.add(results.error());
    work([&] { require_whole_results(results); });
  }
  const StepRecord& record = step.record ? *step.record : *nothing_;
  const ResultTransfer transfer{record.table(), record.assignment, record.plan.micro_batches, settings};
  return return_results(mesh_, transfer, results.micro_batches(), transport_settings(), std::move(call),
                        work.error());
}

void StepMaker::require_whole_results(const StepResults& results) const {
  for (const MicroBatchResults& of_micro_batch : results.micro_batches()) {
    for (const Column& column : of_micro_batch.fields) {
      const std::string& name = column.spec().name;
      if (cuts_rows(config_.fields, name)) {
        throw InputError("result '" + name + "'",
                         "is a field of rows that are cut, of which each context-parallel rank has its own, "
                         "and results come from the first of them alone",
                         "Put what that one has of all rows under another name");
      }
      const auto field = config_.fields.find(name);
      if (field == config_.fields.end() || !field->second.layers) continue;
      throw InputError(
          "result '" + name + "'",
          "is a field of layers, of which each pipeline stage has its own, and results come from "
          "the last stage alone",
          "Put what the last stage has under another name");
    }
  }
}

// What a step was made for is what decides where its samples' rows are.
CallKey StepMaker::key_of(std::string_view action, const Step& step, std::string_view how) const {
  const StepOrigin& origin = step.record->origin;
  if (origin.cut != cut_hash(plan_settings(step.profile))) {
    throw InputError(name_of(step), "was made by a service of another mesh or configuration",
                     "Use a service with the configuration of the one that made it");
  }
  const std::string text = std::string(action) + " " + name_of(step) + std::string(how);
  return {{origin.service, origin.serial, fnv1a_64(text)}, text};
}

std::uint64_t StepMaker::cut_hash(const PlanSettings& settings) const {
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
void StepMaker::use_measured_cost(Making& making) {
  time_reports_->begin_step(mesh_.everyone(), making.step.profile);
  making.work.on_replicated_data([&] {
    CostInUse& cost = making.record->cost;
    cost = cost_in_use(making.step.profile);
    cost.use_in(making.settings.balance);
  });
}

TransportSettings StepMaker::transport_settings() const noexcept {
  return {config_.exchange.path, default_max_message_bytes, config_.exchange.tp_copies,
          config_.exchange.aggregate};
}

// Collective.
void StepMaker::assign(const StepProblem& problem, StepAssignment& assignment, GuardedWork& work) const {
  switch (assigned_by_) {
    case AssignedBy::a_rank_of_each_node:
      return assign_together(mesh_.node(), 0, problem, assignment, work);
    case AssignedBy::first_without_a_place:
      return assign_together(mesh_.everyone(), mesh_.grid().num_ranks(), problem, assignment, work);
  }
}

void StepMaker::plan(Making& making) const {
  StepRecord& record = *making.record;
  const StepProblem problem{record.table(), making.settings, making.step.index, record.samples->trees};
  assign(problem, record.assignment, making.work);
  if (mesh_.has_place()) plan_own(making, problem);
  making.step.seconds.plan = making.stopwatch.lap() - making.step.seconds.agree;
}

// Collective over the ranks that have a place.
void StepMaker::plan_own(Making& making, const StepProblem& problem) const {
  StepRecord& record = *making.record;
  GuardedWork& work = making.work;
  const std::array own{DpRank{mesh_.here().dp}};
  RankPeers peers(mesh_.along(Axis::dp), work);
  StepPlan planned = plan_dp_ranks(problem, record.assignment, own, peers);
  if constexpr (EVENKEEL_ASSERTS(communication)) {
    const std::uint64_t hash = work.failed() ? 0 : plan_hash(record.assignment.shares, planned.counts);
    EVENKEEL_INVARIANT(communication, plans_are_equal(mesh_.world(), hash, work.failed()), hash,
                       mesh_.world().rank(), making.step.index);
  }
  work([&] { record.plan = std::move(planned.ranks.front()); });
  making.step.seconds.agree = peers.seconds();
}

std::vector<CarriedField> StepMaker::carried(Making& making, std::span<const FieldSpec> fields,
                                             OwnRanges& ranges) const {
  auto& of_all = ranges.agree(mesh_.everyone(), fields);
  std::vector<CarriedField> carried;
  making.work.on_replicated_data([&] {
    carried =
        carried_fields(fields, {config_.fields, of_all, config_.mesh.pp, config_.mesh.vpp, sends_messages_});
  });
  return carried;
}

std::vector<CarriedField> StepMaker::sent(Making& making, std::span<const CarriedField> fields) {
  std::vector<CarriedField> sent;
  making.work.on_replicated_data([&] { sent = fields_under(making.step.profile, fields); });
  return sent;
}

StepTransfer StepMaker::transfer_of(const Making& making, std::span<const CarriedField> fields,
                                    const RaggedBatch& mine, std::span<const RowCounts> row_counts) const {
  const StepRecord& record = *making.record;
  return {record.table(),
          record.assignment,
          fields,
          mine,
          record.plan.micro_batches,
          making.settings,
          &making.record->bytes_to,
          &making.record->bytes_from_data_ranks,
          &making.record->volumes,
          row_counts,
          shares_equal(config_.fields)};
}

// Rows that are cut with their samples' tokens are cut by one plan, which all ranks have once none has
// failed.
ExchangeVolume StepMaker::exchange(const Making& making, StepTransfer transfer,
                                   std::vector<PackedMicroBatch>& packed,
                                   const std::function<void()>& finish) const {
  std::vector<RowCuts> cuts;
  if (cuts_rows(config_.fields)) {
    making.work.agree(mesh_.everyone());
    cuts = gather_row_cuts(mesh_.everyone(), transfer);
  }
  transfer.row_cuts = cuts;
  return exchange_samples(mesh_, transfer, making.derived, transport_settings(), packed, making.work, finish);
}

// Collective where samples share prefixes and bring such rows. They are compared by one plan, which all ranks
// have once none has failed.
void StepMaker::require_shared_rows(const Making& making, bool are_shared,
                                    std::span<const CarriedField> fields, const RaggedBatch& mine) const {
  if (config_.prefix == PrefixSharing::none || !are_shared) return;
  making.work.agree(mesh_.everyone());
  require_equal_shared_rows(mesh_.everyone(), making.record->table(), making.record->assignment, fields,
                            mine);
}

void StepMaker::weigh_micro_batches(Making& making) const {
  const StepRecord& record = *making.record;
  std::vector<MicroBatchLoss> losses =
      loss_weights(record.table(), record.assignment, record.plan.micro_batches,
                   config_.profile(making.step.profile).loss, making.settings.dp);
  making.step.micro_batches.resize(losses.size());
  for (std::size_t m = 0; m < losses.size(); ++m) {
    set_token_weights(making.micro_batches[m], losses[m]);
    making.step.micro_batches[m].loss = std::move(losses[m]);
    making.step.micro_batches[m].mini_batch = record.plan.micro_batches[m].mini_batch;
    making.step.micro_batches[m].context = record.plan.micro_batches[m].context;
  }
}

Step StepMaker::finish(Making& making) noexcept {
  Step& step = making.step;
  for (std::size_t m = 0; m < step.micro_batches.size(); ++m)
    step.micro_batches[m].tensors = std::move(making.micro_batches[m]);
  step.waited = step.seconds.total();
  making.record->made_at = std::chrono::steady_clock::now();
  step.record = std::move(making.record);
  return std::move(step);
}

DerivedFieldSettings StepMaker::derived_options(std::string_view profile) const {
  const PackSettings pack = config_.profile(profile).pack;
  return {pack.pad_token, pack.label_pad};
}

}  // namespace evenkeel
