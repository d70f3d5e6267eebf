#include "service/step/exchanged.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/activity.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/gather/row_cut_gather.hpp"
#include "exchange/samples/shared_rows.hpp"
#include "plan/loss_weights.hpp"
#include "service/step/token_weights.hpp"

namespace evenkeel {
namespace {

// With profiles, for passes that assign them anew: those that add fields to them share these columns.
void keep_samples(const Config& config, StepSamples& samples, RaggedBatch& mine) {
  if (config.profiles.empty()) return;
  for (Column& column : mine.fields()) static_cast<void>(column.lend());
  samples.mine = std::make_shared<const RaggedBatch>(std::move(mine));
}

// Tokens ahead, and how many have loss, follow from lengths alone.
void require_derived_labels(std::span<const CarriedField> fields) {
  for (const CarriedField& field : fields) {
    const std::string& name = field.name();
    const bool is_ahead = std::ranges::any_of(
        std::array{input_ids_field, labels_field, loss_mask_field, loss_weights_field},
        [&](std::string_view derived) { return name.starts_with(std::string(derived) + "@"); });
    if (name != labels_field && name != loss_mask_field && !is_ahead) continue;
    throw InputError("field '" + name + "'",
                     "is brought by samples, and pack.predict_ahead derives labels and masks from tokens",
                     "Leave it out, or set pack.predict_ahead: 0");
  }
}

// Samples do not know which rows are pads.
void require_derived_padding_mask(std::span<const CarriedField> fields) {
  if (std::ranges::find(fields, padding_mask_field, &CarriedField::name) == fields.end()) return;
  throw InputError("field '" + std::string(padding_mask_field) + "'",
                   "is brought by samples, and pack.padding_mask derives it from where pads are",
                   "Leave it out, or set pack.padding_mask: false");
}

}  // namespace

std::vector<CarriedField> carried(const StepContext& context, std::span<const FieldSpec> fields,
                                  OwnRanges& ranges, GuardedWork& work) {
  const Config& config = context.config;
  auto& of_all = ranges.agree(context.world(), fields);
  std::vector<CarriedField> carried;
  work.on_replicated_data([&] {
    carried = carried_fields(
        fields, {config.fields, of_all, config.mesh.pp, config.mesh.vpp, context.sends_messages});
  });
  return carried;
}

std::vector<CarriedField> sent(const Planned& planned, std::span<const CarriedField> fields,
                               GuardedWork& work) {
  std::vector<CarriedField> sent;
  work.on_replicated_data([&] {
    sent = fields_under(planned.gathered.pass.profile, fields);
    const DerivedFieldSettings& derived = planned.gathered.pass.derived;
    if (derived.predict_ahead > 0) require_derived_labels(sent);
    if (derived.padding_mask) require_derived_padding_mask(sent);
  });
  return sent;
}

// They are compared by one plan, which all ranks have once none has failed.
void require_shared_rows(const StepContext& context, const Planned& planned, bool are_shared,
                         std::span<const CarriedField> fields, const RaggedBatch& mine,
                         const GuardedWork& work) {
  if (context.config.prefix == PrefixSharing::none || !are_shared) return;
  work.agree(context.world());
  require_equal_shared_rows(context.world(), planned.samples().table, planned.assignment, fields, mine);
}

StepTransfer transfer_of(const StepContext& context, const Planned& planned,
                         std::span<const CarriedField> fields, const RaggedBatch& mine,
                         std::span<const RowCounts> row_counts) {
  return {planned.samples().table,    planned.assignment, fields,     mine,
          planned.plan.micro_batches, planned.settings(), row_counts, shares_equal(context.config.fields)};
}

std::vector<RowCuts> row_cuts(const StepContext& context, const StepTransfer& transfer,
                              const GuardedWork& work) {
  if (!cuts_rows(context.config.fields)) return {};
  work.agree(context.world());
  return gather_row_cuts(context.world(), transfer);
}

std::vector<MicroBatch> weighed(const StepContext& context, const Planned& planned,
                                std::vector<PackedMicroBatch> tensors) {
  const std::vector<MicroBatchPlan>& plans = planned.plan.micro_batches;
  const LossSettings settings = context.config.profile(planned.gathered.pass.profile).loss;
  const auto losses_ahead = [&](std::int64_t ahead) {
    return loss_weights(planned.samples().table, planned.assignment, plans, settings, planned.settings().dp,
                        ahead);
  };
  std::vector<MicroBatchLoss> losses = losses_ahead(0);
  for (std::int64_t ahead = 1; ahead <= planned.gathered.pass.derived.predict_ahead; ++ahead) {
    std::vector<MicroBatchLoss> of_depth = losses_ahead(ahead);
    for (std::size_t m = 0; m < losses.size(); ++m)
      losses[m].token_weights_ahead.push_back(std::move(of_depth[m].token_weights));
  }
  std::vector<MicroBatch> micro_batches(losses.size());
  for (std::size_t m = 0; m < losses.size(); ++m) {
    set_token_weights(tensors[m], losses[m]);
    micro_batches[m].tensors = std::move(tensors[m]);
    micro_batches[m].loss = std::move(losses[m]);
    micro_batches[m].mini_batch = plans[m].mini_batch;
    micro_batches[m].context = plans[m].context;
  }
  return micro_batches;
}

Exchanged exchange_pass(const StepContext& context, Planned planned, Brought brought, GuardedWork& work) {
  Phase::becomes("exchange");
  BegunPass& pass = planned.gathered.pass;
  brought.samples->fields = carried(context, brought.fields, brought.ranges, work);
  require_shared_rows(context, planned, have_shared_rows(brought.fields), brought.samples->fields,
                      brought.mine, work);
  const std::vector<CarriedField> fields = sent(planned, brought.samples->fields, work);
  StepTransfer transfer =
      transfer_of(context, planned, fields, brought.mine, brought.samples->table.row_counts());
  const std::vector<RowCuts> cuts = row_cuts(context, transfer, work);
  transfer.row_cuts = cuts;
  ExchangedSamples made;
  std::vector<MicroBatch> micro_batches;
  SampleExchange exchange = std::move(pass.exchange);  // may be writing into the others until it goes
  made = exchange.run(context.mesh, transfer, pass.derived, context.transport(), work);
  work([&] {
    pass.seconds.exchange = pass.stopwatch.lap();
    micro_batches = weighed(context, planned, std::move(made.micro_batches));
    keep_samples(context.config, *brought.samples, brought.mine);
    pass.seconds.pack = pass.stopwatch.lap();
  });
  exchange.end();
  pass.seconds.exchange += pass.stopwatch.lap();  // the wait for the last rank
  return {std::move(planned), std::move(micro_batches), std::move(made.moved)};
}

Step finish(Exchanged exchanged) noexcept {
  Planned& planned = exchanged.planned;
  Gathered& gathered = planned.gathered;
  const std::shared_ptr<StepRecord> record = std::move(gathered.pass.record);
  Step step;
  step.index = gathered.index;
  step.profile = std::move(gathered.pass.profile);
  step.micro_batches = std::move(exchanged.micro_batches);
  step.num_samples = gathered.samples->table.size();
  step.num_tokens = gathered.samples->table.num_tokens();
  for (const LengthEntry& entry : gathered.samples->table.entries())
    step.num_loss_tokens += loss_tokens_of(entry);
  step.volume = exchanged.moved.volume;
  step.seconds = gathered.pass.seconds;
  step.waited = step.seconds.total();
  record->samples = std::move(gathered.samples);
  record->assignment = std::move(planned.assignment);
  record->plan = std::move(planned.plan);
  record->shapes = std::move(planned.shapes);
  record->cost = std::move(gathered.cost);
  record->origin = gathered.origin;
  record->bytes_to = std::move(exchanged.moved.bytes_to);
  record->volumes = std::move(exchanged.moved.volumes);
  record->made_at = std::chrono::steady_clock::now();
  step.record = record;
  return step;
}

}  // namespace evenkeel
