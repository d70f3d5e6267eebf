#include "service/step/exchanged.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/activity.hpp"
#include "batch/mask.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/gather/row_count_gather.hpp"
#include "exchange/samples/shared_rows.hpp"
#include "pack/micro_batch/derived_columns.hpp"
#include "plan/loss_weights.hpp"

namespace evenkeel {
namespace {

// Returns the rows of a sample's loss mask.
RowRange mask_rows(const PackedMicroBatch& micro_batch, const Column& mask, std::size_t sample) {
  if (is_counted(mask.spec().kind)) return mask.samples()[static_cast<std::int64_t>(sample)];
  if (!micro_batch.shared) return micro_batch.layout.local_range(static_cast<std::int64_t>(sample));
  return {micro_batch.shared->prediction_offsets[sample], micro_batch.shared->prediction_offsets[sample + 1]};
}

// Returns the column to which loss weights are written: the column of an earlier pass or, if it has a
// different form or other ranks may still be reading it, a new column.
Column column_for_weights(Column* before, const ColumnDescription& weights, MicroBatchArena& arena) {
  const bool is_as_it_was = before != nullptr && !before->is_borrowed() && before->spec() == weights.spec &&
                            before->rows() == weights.rows && before->samples() == weights.samples;
  return is_as_it_was ? std::move(*before) : weights.make_column_in(arena);
}

// Adds or replaces the column `name` with the loss weights of the rows of `mask`. `token_weights` has one
// weight per sample. The rows of all samples are consecutive; filler rows follow, and get weight 0.
void set_weights(PackedMicroBatch& micro_batch, const Column& mask, std::string name,
                 std::span<const double> token_weights) {
  Column* const before = micro_batch.find(name);
  Column weights = column_for_weights(
      before, describe_weights(ColumnDescription::from_column(mask), std::move(name)), micro_batch.arena);
  const std::span<float> values = weights.values<float>();
  std::int64_t written = 0;
  for (std::size_t i = 0; i < token_weights.size(); ++i) {
    const RowRange rows = mask_rows(micro_batch, mask, i);
    EVENKEEL_INVARIANT(cheap, rows.begin == written, rows.begin, written);
    write_mask(mask, rows, static_cast<float>(token_weights[i]),
               values.subspan(static_cast<std::size_t>(rows.begin), static_cast<std::size_t>(rows.size())));
    written = rows.end;
  }
  std::ranges::fill(values.subspan(static_cast<std::size_t>(written)), 0.0F);
  if (before != nullptr)
    micro_batch.fields.erase(micro_batch.fields.begin() + (before - micro_batch.fields.data()));
  micro_batch.fields.push_back(std::move(weights));
}

// Keeps this rank's samples for later passes, which may assign them to other ranks. Lends the columns, so
// that passes with added fields can share them. Returns null if the configuration does not have profiles.
std::shared_ptr<const RaggedBatch> keep_samples(const Config& config, RaggedBatch& mine) {
  if (config.profiles.empty()) return nullptr;
  for (Column& column : mine.fields()) static_cast<void>(column.lend());
  return std::make_shared<const RaggedBatch>(std::move(mine));
}

// Throws InputError if samples supply labels, a loss mask or look-ahead fields (NAME@K), since
// pack.predict_ahead derives all of these fields from the tokens and lengths.
void require_derived_labels(std::span<const CarriedField> fields) {
  for (const CarriedField& field : fields) {
    const std::string& name = field.name();
    const bool is_ahead = std::ranges::any_of(
        std::array{input_ids_field, labels_field, loss_mask_field, loss_weights_field},
        [&](std::string_view derived) { return name.starts_with(std::string(derived) + "@"); });
    if (name != labels_field && name != loss_mask_field && !is_ahead) continue;
    throw InputError("field '" + name + "'",
                     "is a field of the samples, but pack.predict_ahead derives labels and masks from tokens",
                     "Leave it out, or set pack.predict_ahead: 0");
  }
}

// Throws InputError if samples supply a padding mask, since only the layout determines which rows are
// padding.
void require_derived_padding_mask(std::span<const CarriedField> fields) {
  if (std::ranges::find(fields, padding_mask_field, &CarriedField::name) == fields.end()) return;
  throw InputError("field '" + std::string(padding_mask_field) + "'",
                   "is a field of the samples, but pack.padding_mask derives it from the pad rows",
                   "Leave it out, or set pack.padding_mask: false");
}

}  // namespace

void set_token_weights(PackedMicroBatch& micro_batch, const MicroBatchLoss& loss) {
  if (const Column* mask = micro_batch.find(loss_mask_field))
    set_weights(micro_batch, *mask, std::string(loss_weights_field), loss.token_weights);
  for (std::size_t d = 0; d < loss.token_weights_ahead.size(); ++d) {
    const auto depth = static_cast<std::int64_t>(d) + 1;
    if (const Column* mask = micro_batch.find(prediction_field_name(loss_mask_field, depth)))
      set_weights(micro_batch, *mask, prediction_field_name(loss_weights_field, depth),
                  loss.token_weights_ahead[d]);
  }
}

std::vector<CarriedField> select_sent_fields(const Planned& planned, std::span<const CarriedField> fields,
                                             GuardedWork& work) {
  std::vector<CarriedField> sent;
  work.run_on_replicated_data([&] {
    sent = fields_for_profile(planned.pass().profile, fields);
    const DerivedFieldSettings& derived = planned.pass().derived;
    if (derived.predict_ahead > 0) require_derived_labels(sent);
    if (derived.padding_mask) require_derived_padding_mask(sent);
  });
  return sent;
}

// Agrees on errors first, since the comparison needs identical plans.
void check_shared_rows(const StepContext& context, const Planned& planned, bool are_shared,
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
          planned.plan.micro_batches, planned.settings,   row_counts, shares_equal(context.config.fields)};
}

std::vector<RowCuts> gather_cuts(const StepContext& context, const StepTransfer& transfer,
                                 const GuardedWork& work) {
  if (!cuts_rows(context.config.fields)) return {};
  work.agree(context.world());
  return gather_row_cuts(context.world(), transfer);
}

std::vector<MicroBatch> make_micro_batches(const StepContext& context, const Planned& planned,
                                           std::vector<PackedMicroBatch> tensors) {
  const std::vector<MicroBatchPlan>& plans = planned.plan.micro_batches;
  const LossSettings settings = context.config.profile(planned.pass().profile).loss;
  const auto losses_ahead = [&](std::int64_t ahead) {
    return loss_weights(planned.samples().table, planned.assignment, plans, settings, planned.settings.dp,
                        ahead);
  };
  std::vector<MicroBatchLoss> losses = losses_ahead(0);
  for (std::int64_t ahead = 1; ahead <= planned.pass().derived.predict_ahead; ++ahead) {
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
    micro_batches[m].context_rank = plans[m].context.rank_of(context.mesh.data_place());
  }
  return micro_batches;
}

Exchanged exchange_pass(const StepContext& context, Planned planned, RaggedBatch mine, GuardedWork& work) {
  Phase::switch_to("exchange");
  Pass& pass = planned.gathered.pass;
  const StepSamples& samples = planned.samples();
  check_shared_rows(context, planned, must_compare_rows(samples.fields), samples.fields, mine, work);
  const std::vector<CarriedField> fields = select_sent_fields(planned, samples.fields, work);
  StepTransfer transfer = transfer_of(context, planned, fields, mine, samples.table.row_counts());
  const std::vector<RowCuts> cuts = gather_cuts(context, transfer, work);
  transfer.row_cuts = cuts;
  std::vector<MicroBatch> micro_batches;
  std::shared_ptr<const RaggedBatch> kept;
  const auto own_work = [&](ExchangedSamples& exchanged) {
    pass.seconds.exchange = pass.stopwatch.lap();
    micro_batches = make_micro_batches(context, planned, std::move(exchanged.micro_batches));
    kept = keep_samples(context.config, mine);
    pass.seconds.pack = pass.stopwatch.lap();
  };
  ExchangedSamples made =
      exchange_samples(context.mesh, transfer, pass.derived, context.transport_settings(), work, own_work);
  pass.seconds.exchange += pass.stopwatch.lap();  // includes the wait for the last rank
  return {std::move(planned), std::move(micro_batches), std::move(made.figures), std::move(kept)};
}

Step make_step(Exchanged exchanged) {
  Planned& planned = exchanged.planned;
  Gathered& gathered = planned.gathered;
  const LengthTable& table = planned.samples().table;
  Step step;
  step.index = gathered.index;
  step.profile = std::move(gathered.pass.profile);
  step.micro_batches = std::move(exchanged.micro_batches);
  step.num_samples = table.size();
  step.num_tokens = table.num_tokens();
  for (const LengthEntry& entry : table.entries()) step.num_loss_tokens += loss_tokens_of(entry);
  step.volume = exchanged.figures.volume;
  step.seconds = gathered.pass.seconds;
  step.waited_seconds = step.seconds.total();
  step.record = std::make_shared<const StepRecord>(StepRecord{
      .samples = std::move(gathered.samples),
      .mine = std::move(exchanged.mine),
      .assignment = std::move(planned.assignment),
      .plan = std::move(planned.plan),
      .shapes = std::move(planned.shapes),
      .strategy = planned.strategy,
      .cost = std::move(gathered.cost),
      .origin = gathered.origin,
      .made_at = std::chrono::steady_clock::now(),
      .bytes_to = std::move(exchanged.figures.bytes_to),
      .volumes = std::move(exchanged.figures.volumes),
  });
  return step;
}

}  // namespace evenkeel
