#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>

#include "base/activity.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/row_count_gather.hpp"
#include "exchange/samples/shared_rows.hpp"
#include "service/passes/regroup.hpp"
#include "service/step/sample_checks.hpp"
#include "service/step/step_maker.hpp"

namespace evenkeel {
namespace {

std::vector<FieldSpec> specs_of(std::span<const Column> columns) {
  std::vector<FieldSpec> specs;
  for (const Column& column : columns) specs.push_back(column.spec());
  return specs;
}

// Whether every sequence of a pass has the rows on each rank that it has in another pass.
bool cut_alike(const StepAssignment& one, const StepAssignment& other, const PlanSettings& settings,
               const PlanSettings& other_settings) {
  return settings.cp == other_settings.cp && one.groups == other.groups && one.shares == other.shares &&
         one.segments == other.segments;
}

// Ranks have equal configurations, so all throw or none does.
void require_kept(const StepSamples& samples, std::int64_t step) {
  if (samples.mine) return;
  throw InputError("step " + std::to_string(step), "has no samples to be assigned anew",
                   "Take it from a service of the same configuration: a step has its samples where there are "
                   "profiles");
}

// What the trainer left of a pass's micro-batches.
std::vector<PackedMicroBatch> take_tensors(Step& before) {
  std::vector<PackedMicroBatch> tensors;
  tensors.reserve(before.micro_batches.size());
  for (MicroBatch& micro_batch : before.micro_batches) tensors.push_back(std::move(micro_batch.tensors));
  return tensors;
}

bool has_field(std::span<const CarriedField> fields, std::string_view name) {
  return std::ranges::find(fields, name, &CarriedField::name) != fields.end();
}

bool has_all(std::span<const CarriedField> fields, std::span<const CarriedField> wanted) {
  return std::ranges::all_of(wanted,
                             [&](const CarriedField& field) { return has_field(fields, field.name()); });
}

// Of the fields that a pass was sent, leaves those that the next one is sent, and the trainer's own.
void keep_fields(std::span<PackedMicroBatch> micro_batches, std::span<const CarriedField> sent,
                 std::span<const CarriedField> kept) {
  for (PackedMicroBatch& micro_batch : micro_batches) {
    std::erase_if(micro_batch.fields, [&](const Column& column) {
      return has_field(sent, column.spec().name) && !has_field(kept, column.spec().name);
    });
  }
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

/// Fields that owners add to a pass, as they travel.
struct AddedFields {
  std::span<const CarriedField> fields;
  std::span<const RowCounts> row_counts;  // of the counted ones
  const RaggedBatch& mine;                // this rank's

  [[nodiscard]] bool has(std::string_view name) const { return has_field(fields, name); }
};

// What cuts rows of other fields is replaced with them, or not at all.
void require_cut_by_what_is_there(const StepSamples& samples, const AddedFields& added) {
  for (const CarriedField& field : samples.fields) {
    if (field.cut_by.empty() || added.has(field.name()) || !added.has(field.cut_by)) continue;
    throw InputError("field '" + field.cut_by + "'",
                     "cuts '" + field.name() + "', and is replaced without it",
                     "Add both, or leave both as they are");
  }
}

// What this rank brings with fields that it adds. Columns are lent already: their bytes are not copied.
RaggedBatch with_added(const RaggedBatch& mine, const AddedFields& added) {
  if (mine.size() == 0) return {};
  RaggedBatch all({mine.samples().begin(), mine.samples().end()});
  for (const Column& column : mine.fields())
    if (!added.has(column.spec().name)) all.add_field(column);
  for (const Column& column : added.mine.fields()) static_cast<void>(all.add_field(column).lend());
  return all;
}

// A step's samples with fields that came up since, in the place of those of their names: what they bring from
// now on, where they are sent again.
std::shared_ptr<const StepSamples> with_added(const StepSamples& samples, const AddedFields& added) {
  auto all = std::make_shared<StepSamples>(samples);
  std::erase_if(all->fields, [&](const CarriedField& field) { return added.has(field.name()); });
  const std::size_t first = samples.fields.empty() ? 0 : samples.fields.back().source + 1;
  for (CarriedField field : added.fields) {
    field.source += first;
    all->fields.push_back(std::move(field));
  }
  std::vector<RowCounts> counts(added.row_counts.begin(), added.row_counts.end());
  for (const RowCounts& of_field : samples.table.row_counts())
    if (!added.has(of_field.field)) counts.push_back(of_field);
  all->table.set_row_counts(std::move(counts));
  if (samples.mine) all->mine = std::make_shared<const RaggedBatch>(with_added(*samples.mine, added));
  return all;
}

}  // namespace

Step StepMaker::later_pass(Step before, std::string_view profile, const RaggedBatch& added,
                           const GuardedWork& error) {
  Phase phase("agree on fields", before.index);
  GuardedWork work(error);
  std::optional<Making> begun;
  FieldsBrought brought;
  OwnRanges ranges;
  work([&] { require_made(before); });
  begin(begun, profile, work);
  work([&] {
    const LengthTable& table = before.record->table();
    brought.call = key_of("passes over", before, under_profile(profile));
    const std::int64_t owned = std::ranges::count(table.entries(), mesh_.rank(), &LengthEntry::owner);
    require_addable(table, mesh_.rank(), owned, added);
    if (owned > 0) brought.fields = specs_of(added.fields());
    ranges = OwnRanges(added, config_.fields, sends_messages_);
  });
  const std::vector<FieldSpec> fields = agree_on_fields(mesh_.everyone(), std::move(brought), work.error());
  // Nobody has failed so far.
  Making& making = *begun;
  making.record->samples = before.record->samples;
  number(making, before.index);
  use_measured_cost(making);
  phase.becomes("plan");
  plan(making);
  making.record->shapes = before.record->shapes;
  hand_out_shapes(making);
  phase.becomes("exchange");
  pass_on(before, making);
  add_fields(making, fields, ranges, added);
  return finish(making);
}

// Takes what the pass before left on this rank of what this pass is sent.
StepMaker::Left StepMaker::take_left(Step& before, const Making& making,
                                     std::span<const CarriedField> fields) const {
  const StepRecord& record = *making.record;
  const DpRankPlan& plan_before = before.record->plan;
  const std::vector<CarriedField> sent_before = fields_under(before.profile, record.samples->fields);
  Left left;
  left.stays = cut_alike(before.record->assignment, record.assignment, plan_settings(before.profile),
                         making.settings) &&
               derived_options(before.profile) == making.derived && has_all(sent_before, fields);
  left.stays_together = left.stays && record.plan == plan_before;
  if (left.stays && before.micro_batches.size() != plan_before.micro_batches.size()) {
    throw InputError(name_of(before),
                     "has " + std::to_string(before.micro_batches.size()) + " of its " +
                         std::to_string(plan_before.micro_batches.size()) +
                         " micro-batches left to be passed over again",
                     "Leave them in the step");
  }
  left.tensors = take_tensors(before);
  if (left.stays && mesh_.has_place())
    require_whole(left.tensors, sent_before, {mesh_.here().pp, mesh_.grid().sizes().pp});
  keep_fields(left.tensors, sent_before, fields);
  return left;
}

// Hands on what the pass before left on this rank or, where samples go elsewhere, has them sent again.
void StepMaker::pass_on(Step& before, Making& making) const {
  const StepRecord& record = *making.record;
  GuardedWork& work = making.work;
  const std::vector<CarriedField> fields = sent(making, record.samples->fields);
  Left left;
  work([&] { left = take_left(before, making, fields); });
  // All ranks take the same way.
  work.agree(mesh_.everyone());
  if (record.assignment.shared())
    left.stays_together = mesh_.everyone().all_reduce(left.stays_together ? 1 : 0, Extreme::least) != 0;
  if (left.stays_together) {
    making.micro_batches = std::move(left.tensors);
  } else if (left.stays && !record.assignment.shared()) {
    work([&] { regroup_locally(left.tensors, before.record->plan.micro_batches, fields, making); });
    making.step.seconds.pack = making.stopwatch.lap();
  } else {
    work.on_replicated_data([&] { require_kept(*record.samples, before.index); });
    const RaggedBatch& samples = record.samples->mine ? *record.samples->mine : making.nothing;
    require_shared_rows(making, have_shared_rows(record.samples->fields), record.samples->fields, samples);
    making.step.volume = exchange(making, transfer_of(making, fields, samples, record.table().row_counts()),
                                  making.micro_batches);
  }
}

void StepMaker::regroup_locally(std::span<PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
                                std::span<const CarriedField> fields, Making& making) const {
  const std::vector<FieldSpec> brought = handed_out_fields(fields);
  const std::vector<MicroBatchPlan>& plans = making.record->plan.micro_batches;
  const StepTransfer transfer =
      transfer_of(making, fields, making.nothing, making.record->table().row_counts());
  for (const MicroBatchPlan& plan : plans) {
    PackedMicroBatch& m =
        making.micro_batches.emplace_back(lay_out_micro_batch(mesh_, transfer, plan, making.derived));
    // Only filler and padding have nothing to copy their rows from. They get no fields that others have not:
    // an earlier pass may have added them, for the last pipeline stage alone.
    if (plan.tokens > 0 && !plan.shape) continue;
    complete_fields(m, brought, no_halo(m), making.derived);
    std::erase_if(m.fields, [&](const Column& c) { return from.front().find(c.spec().name) == nullptr; });
  }
  regroup(from, from_plan, making.micro_batches, plans);
}

// The last part of a later pass: fields that came up since, and the losses' weights.
void StepMaker::add_fields(Making& making, std::span<const FieldSpec> fields, OwnRanges& ranges,
                           const RaggedBatch& added) const {
  Step& step = making.step;
  std::vector<PackedMicroBatch> columns;
  const auto last = [&] {
    step.seconds.exchange += making.stopwatch.lap();
    replace_fields(making.micro_batches, columns, fields);
    weigh_micro_batches(making);
    step.seconds.pack += making.stopwatch.lap();
  };
  if (fields.empty()) {
    making.work(last);
    making.work.agree(mesh_.everyone());
  } else {
    const std::vector<CarriedField> travelling = carried(making, fields, ranges);
    require_shared_rows(making, have_shared_rows(fields), travelling, added);
    const std::vector<RowCounts> row_counts =
        gather_row_counts(mesh_.everyone(), making.record->table(), fields, added, config_.fields);
    making.work.on_replicated_data([&] {
      require_cut_by_what_is_there(*making.record->samples, {travelling, row_counts, added});
    });
    std::shared_ptr<const StepSamples> samples;
    const auto at_last = [&] {
      last();
      samples = with_added(*making.record->samples, {travelling, row_counts, added});
    };
    const std::vector<CarriedField> now = sent(making, travelling);
    step.volume += exchange(making, transfer_of(making, now, added, row_counts), columns, std::ref(at_last));
    making.record->samples = std::move(samples);
  }
  step.seconds.exchange += making.stopwatch.lap();  // the wait for the last rank
}

}  // namespace evenkeel
