#include "service/passes/later_pass.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "exchange/gather/field_agreement.hpp"
#include "exchange/gather/row_count_gather.hpp"
#include "exchange/samples/shared_rows.hpp"
#include "pack/micro_batch/derived_columns.hpp"
#include "service/step/sample_checks.hpp"

namespace evenkeel {
namespace {

struct Place {
  std::size_t micro_batch = 0;
  std::int64_t sequence = 0;
};

std::unordered_map<EntryId, Place> places_of(std::span<const MicroBatchPlan> plans) {
  std::unordered_map<EntryId, Place> places;
  for (std::size_t m = 0; m < plans.size(); ++m) {
    for (std::size_t i = 0; i < plans[m].entries.size(); ++i) {
      places[plans[m].entries[i]] = {m, static_cast<std::int64_t>(i)};
    }
  }
  return places;
}

/// Returns whether the micro-batches `from` and `to` contain the same entries, each with the same aligned
/// length in both. `places` has the place of each entry in `from`.
bool have_equal_entries(std::span<const PackedMicroBatch> from,
                        const std::unordered_map<EntryId, Place>& places, std::span<PackedMicroBatch> to,
                        std::span<const MicroBatchPlan> to_plan) {
  std::size_t entries = 0;
  for (std::size_t m = 0; m < to.size(); ++m) {
    for (std::size_t i = 0; i < to_plan[m].entries.size(); ++i, ++entries) {
      const auto place = places.find(to_plan[m].entries[i]);
      if (place == places.end()) return false;
      const PackedLayout& source = from[place->second.micro_batch].layout;
      if (source.aligned_length(place->second.sequence) !=
          to[m].layout.aligned_length(static_cast<std::int64_t>(i)))
        return false;
    }
  }
  return entries == places.size();
}

RowRange rows_of(const PackedMicroBatch& micro_batch, const Column& column, std::int64_t sequence) {
  if (is_counted(column.spec().kind)) return column.samples()[sequence];
  if (column.spec().rule().is_per_sample()) return {sequence, sequence + 1};
  return micro_batch.layout.local_range(sequence);
}

/// Describes a counted column of micro-batch `to`. Uses the row counts of `from`, since the trainer may have
/// changed the counts.
ColumnDescription counted_column(std::span<const PackedMicroBatch> from, const FieldSpec& spec,
                                 const std::unordered_map<EntryId, Place>& places, const PackedMicroBatch& to,
                                 const MicroBatchPlan& to_plan) {
  std::vector<std::int64_t> counts(to.samples.size());
  for (std::size_t i = 0; i < to_plan.entries.size(); ++i) {
    const Place& place = places.at(to_plan.entries[i]);
    counts[i] = from[place.micro_batch].find(spec.name)->samples()[place.sequence].size();
  }
  return ColumnDescription::make_counted(spec, SampleRows::from_counts(counts));
}

/// Returns a column that borrows shared rows from `from`. The samples of `to` keep their ranges of rows.
/// Throws InputError if the trainer has modified the column.
Column make_borrowing_column(std::span<PackedMicroBatch> from, const std::string& name,
                             const std::unordered_map<EntryId, Place>& places, const PackedMicroBatch& to,
                             const MicroBatchPlan& to_plan) {
  Column& first = *from.front().find(name);
  std::vector<RowRange> ranges(to.samples.size());
  for (std::size_t i = 0; i < to_plan.entries.size(); ++i) {
    const Place& place = places.at(to_plan.entries[i]);
    const Column& source = *std::as_const(from[place.micro_batch]).find(name);
    if (source.bytes().data() != std::as_const(first).bytes().data()) {
      throw InputError("field '" + name + "' of micro-batch " + std::to_string(place.micro_batch),
                       "was modified, but its rows are shared by all micro-batches and are read-only",
                       "Write to a copy, or set fields." + name + ".share: none");
    }
    ranges[i] = source.samples()[place.sequence];
  }
  return first.make_borrowing_copy(SampleRows::shared(std::move(ranges), first.rows()));
}

/// Describes the columns that micro-batch `to` will own, one per field of `from`. Omits fields with shared
/// rows, since `to` borrows their columns.
std::vector<ColumnDescription> columns_of(std::span<const PackedMicroBatch> from,
                                          const std::unordered_map<EntryId, Place>& places,
                                          const PackedMicroBatch& to, const MicroBatchPlan& plan) {
  std::vector<ColumnDescription> columns;
  for (const Column& column : from.front().fields) {
    const FieldSpec& spec = column.spec();
    if (column.samples().are_shared()) continue;
    if (is_counted(spec.kind)) {
      columns.push_back(counted_column(from, spec, places, to, plan));
    } else {
      columns.push_back({spec, spec.rule().is_per_sample() ? to.layout.size() : to.layout.local_rows()});
    }
  }
  return columns;
}

void add_missing_fields(std::span<PackedMicroBatch> from, const std::unordered_map<EntryId, Place>& places,
                        PackedMicroBatch& micro_batch, const MicroBatchPlan& plan) {
  const std::vector<ColumnDescription> columns = columns_of(from, places, micro_batch, plan);
  for (const Column& column : std::as_const(from.front().fields)) {
    const std::string& name = column.spec().name;
    if (column.samples().are_shared()) {
      micro_batch.fields.push_back(make_borrowing_column(from, name, places, micro_batch, plan));
    } else if (micro_batch.find(name) == nullptr) {
      Column& added = micro_batch.fields.emplace_back(find(columns, name)->make_column_in(micro_batch.arena));
      if (!is_counted(column.spec().kind)) std::ranges::fill(added.bytes(), std::byte{0});
    }
  }
}

void copy_sequence(const PackedMicroBatch& from, std::int64_t at, PackedMicroBatch& to, std::int64_t to_at) {
  for (const Column& source : from.fields) {
    if (source.samples().are_shared()) continue;
    Column& target = *to.find(source.spec().name);
    const RowRange rows = rows_of(from, source, at);
    const auto bytes = static_cast<std::size_t>(rows.size()) * source.row_bytes();
    std::copy_n(source.row(rows.begin), bytes, target.row(rows_of(to, target, to_at).begin));
  }
}

// Returns whether every rank has the same rows of every sequence under both assignments.
bool have_equal_cuts(const StepAssignment& one, const StepAssignment& other, const PlanSettings& settings,
                     const PlanSettings& other_settings) {
  return settings.cp == other_settings.cp && settings.delivery == other_settings.delivery &&
         one.groups == other.groups && one.shares == other.shares && one.segments == other.segments;
}

// Throws InputError if the step did not keep its samples. Either all ranks throw or no rank does, since their
// configurations are equal.
void require_kept_samples(const Step& before) {
  if (before.record->mine) return;
  throw InputError("step " + std::to_string(before.index), "has no samples to assign again",
                   "Use a step of a service with profiles, since only such steps keep their samples");
}

// Moves the tensors out of a pass's micro-batches. The trainer may have changed these tensors.
std::vector<PackedMicroBatch> move_out_tensors(Step& before) {
  std::vector<PackedMicroBatch> tensors;
  tensors.reserve(before.micro_batches.size());
  for (MicroBatch& micro_batch : before.micro_batches) tensors.push_back(std::move(micro_batch.tensors));
  return tensors;
}

bool has_field(std::span<const CarriedField> fields, std::string_view name) {
  return std::ranges::find(fields, name, &CarriedField::name) != fields.end();
}

bool has_all_fields(std::span<const CarriedField> fields, std::span<const CarriedField> wanted) {
  return std::ranges::all_of(wanted,
                             [&](const CarriedField& field) { return has_field(fields, field.name()); });
}

// Removes the fields that were sent for the previous pass (`sent`) but do not belong to this pass (`kept`).
// Keeps fields that the trainer has added.
void remove_unneeded_fields(std::span<PackedMicroBatch> micro_batches, std::span<const CarriedField> sent,
                            std::span<const CarriedField> kept) {
  for (PackedMicroBatch& micro_batch : micro_batches) {
    std::erase_if(micro_batch.fields, [&](const Column& column) {
      return has_field(sent, column.spec().name) && !has_field(kept, column.spec().name);
    });
  }
}

std::vector<std::int64_t> make_zero_halo(const PackedMicroBatch& micro_batch,
                                         const DerivedFieldSettings& derived) {
  const std::size_t runs = packed_runs(micro_batch.layout, micro_batch.cp_rank).size();
  return std::vector<std::int64_t>(runs * static_cast<std::size_t>(derived.reach()));
}

// Moves the columns of these fields from `columns` to `micro_batches`, replacing columns with the same names.
void replace_fields(std::span<PackedMicroBatch> micro_batches, std::span<PackedMicroBatch> columns,
                    std::span<const FieldSpec> fields) {
  const auto is_added = [&](const Column& column) {
    return std::ranges::find(fields, column.spec().name, &FieldSpec::name) != fields.end();
  };
  for (std::size_t m = 0; m < columns.size(); ++m) {
    // Remove these fields also on pipeline stages to which they are not sent, since columns with these names
    // are derived there.
    std::erase_if(micro_batches[m].fields, is_added);
    std::ranges::move(columns[m].fields | std::views::filter(is_added),
                      std::back_inserter(micro_batches[m].fields));
  }
}

/// Fields that owners add to a pass, in the form in which they are transferred.
struct AddedFields {
  std::span<const CarriedField> fields;
  std::span<const RowCounts> row_counts;  // number of rows of each sample in each counted field
  std::span<const FieldSums> field_sums;  // sum of each sample's values in each field that defines costs
  const RaggedBatch& mine;                // this rank's samples

  [[nodiscard]] bool has(std::string_view name) const { return has_field(fields, name); }
};

// Throws InputError if a field that cuts rows of another field is replaced without that field.
void require_cut_fields_added(const StepSamples& samples, const AddedFields& added) {
  for (const CarriedField& field : samples.fields) {
    if (field.cut_by.empty() || added.has(field.name()) || !added.has(field.cut_by)) continue;
    throw InputError("field '" + field.cut_by + "'",
                     "determines how '" + field.name() + "' is cut, but only one of the two is replaced",
                     "Add both, or leave both as they are");
  }
}

// Returns this rank's kept samples with the added fields; null if samples were not kept. The columns of kept
// samples are borrowed, so their bytes are not copied.
std::shared_ptr<const RaggedBatch> add_fields_to_samples(const std::shared_ptr<const RaggedBatch>& kept,
                                                         const AddedFields& added) {
  if (!kept || kept->size() == 0) return kept;
  const RaggedBatch& mine = *kept;
  RaggedBatch all({mine.samples().begin(), mine.samples().end()});
  all.set_contexts({mine.contexts().begin(), mine.contexts().end()});
  for (const Column& column : mine.fields())
    if (!added.has(column.spec().name)) all.add_field(column);
  for (const Column& column : added.mine.fields()) static_cast<void>(all.add_field(column).lend());
  return std::make_shared<const RaggedBatch>(std::move(all));
}

// Returns a step's samples with the added fields, which replace fields with the same names. If samples are
// sent again, owners also send the added fields.
std::shared_ptr<const StepSamples> add_fields_to_samples(const StepSamples& samples,
                                                         const AddedFields& added) {
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
  std::vector<FieldSums> sums(added.field_sums.begin(), added.field_sums.end());
  for (const FieldSums& of_field : samples.table.field_sums())
    if (!added.has(of_field.field)) sums.push_back(of_field);
  all->table.set_field_sums(std::move(sums));
  return all;
}

/// Tensors that a pass leaves on this rank for the next pass.
struct RemainingTensors {
  std::vector<PackedMicroBatch> tensors;
  bool can_reuse = false;         ///< whether all ranks can reuse their tensors; the same on all ranks
  bool can_keep_packing = false;  ///< whether this rank's micro-batches stay the same, too
};

// Moves the tensors of the previous pass out of `before`, and removes the fields of samples that this pass
// does not get. Throws InputError if the trainer has removed or changed data that this pass needs.
RemainingTensors extract_remaining_tensors(const StepContext& context, Step& before, const Planned& planned,
                                           std::span<const CarriedField> fields) {
  const DpRankPlan& plan_before = before.record->plan;
  const std::vector<CarriedField> sent_before = fields_for_profile(before.profile, planned.samples().fields);
  RemainingTensors left;
  left.can_reuse = have_equal_cuts(before.record->assignment, planned.assignment,
                                   context.plan_settings(before.profile), planned.settings) &&
                   context.derived_settings(before.profile) == planned.pass().derived &&
                   has_all_fields(sent_before, fields);
  left.can_keep_packing = left.can_reuse && planned.plan == plan_before;
  if (left.can_reuse && before.micro_batches.size() != plan_before.micro_batches.size()) {
    throw InputError(name_of(before),
                     "cannot run again, since its number of micro-batches was changed from " +
                         std::to_string(plan_before.micro_batches.size()) + " to " +
                         std::to_string(before.micro_batches.size()),
                     "Do not add micro-batches to a step or remove any before its last pass");
  }
  left.tensors = move_out_tensors(before);
  const Mesh& mesh = context.mesh;
  if (left.can_reuse)
    require_reusable_micro_batches(left.tensors, sent_before, {mesh.here().pp, mesh.grid().sizes().pp});
  remove_unneeded_fields(left.tensors, sent_before, fields);
  return left;
}

// Returns the micro-batches of the new plan. This rank's sequences are copied to them from `from`.
std::vector<PackedMicroBatch> regroup_pass(const StepContext& context, std::span<PackedMicroBatch> from,
                                           std::span<const MicroBatchPlan> from_plan,
                                           std::span<const CarriedField> fields, const Planned& planned) {
  const DerivedFieldSettings& derived = planned.pass().derived;
  const RaggedBatch nothing_sent;
  const std::vector<FieldSpec> brought = delivered_fields(fields);
  const std::vector<MicroBatchPlan>& plans = planned.plan.micro_batches;
  const StepTransfer transfer =
      transfer_of(context, planned, fields, nothing_sent, planned.samples().table.row_counts());
  std::vector<PackedMicroBatch> micro_batches;
  for (const MicroBatchPlan& plan : plans)
    micro_batches.push_back(lay_out_rows(context.mesh, transfer, plan));
  add_arenas(from, from_plan, micro_batches, plans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    PackedMicroBatch& m = micro_batches[i];
    const MicroBatchPlan& plan = plans[i];
    add_uncounted_columns(context.mesh, transfer, plan, derived, m);
    // Filler and padding rows are not copied from `from`, so derive the fields of these rows here. Remove
    // derived fields that `from` does not have, since an earlier pass may have added them only on the last
    // pipeline stage.
    if (plan.tokens > 0 && !plan.shape) continue;
    complete_fields(m, brought, make_zero_halo(m, derived), derived);
    std::erase_if(m.fields, [&](const Column& c) { return from.front().find(c.spec().name) == nullptr; });
  }
  regroup(from, from_plan, micro_batches, plans);
  return micro_batches;
}

// Collective: sends the samples again, according to this plan.
ExchangedSamples send_again(const StepContext& context, const Step& before, const Planned& planned,
                            std::span<const CarriedField> fields, GuardedWork& work) {
  const StepSamples& samples = planned.samples();
  require_kept_samples(before);
  const RaggedBatch& mine = *before.record->mine;
  check_shared_rows(context, planned, must_compare_rows(samples.fields), samples.fields, mine, work);
  StepTransfer transfer = transfer_of(context, planned, fields, mine, samples.table.row_counts());
  const std::vector<RowCuts> cuts = gather_cuts(context, transfer, work);
  transfer.row_cuts = cuts;
  return exchange_samples(context.mesh, transfer, planned.pass().derived, context.transport_settings(), work);
}

}  // namespace

void add_arenas(std::span<const PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
                std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan) {
  const auto places = places_of(from_plan);
  for (std::size_t m = 0; m < to.size(); ++m)
    to[m].arena = arena_for(to[m].layout, columns_of(from, places, to[m], to_plan[m]));
}

void regroup(std::span<PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
             std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan) {
  const auto places = places_of(from_plan);
  EVENKEEL_PRECONDITION(thorough, have_equal_entries(from, places, to, to_plan), places.size());
  for (std::size_t m = 0; m < to.size(); ++m) {
    add_missing_fields(from, places, to[m], to_plan[m]);
    for (std::size_t i = 0; i < to_plan[m].entries.size(); ++i) {
      const Place& place = places.at(to_plan[m].entries[i]);
      copy_sequence(from[place.micro_batch], place.sequence, to[m], static_cast<std::int64_t>(i));
    }
  }
}

ExchangedSamples reuse_or_resend(const StepContext& context, Step& before, Planned& planned,
                                 GuardedWork& work) {
  Phase::switch_to("exchange");
  const std::vector<CarriedField> fields = select_sent_fields(planned, planned.samples().fields, work);
  RemainingTensors left;
  work([&] { left = extract_remaining_tensors(context, before, planned, fields); });
  // After this agreement, all ranks take the same branch below.
  work.agree(context.world());
  const bool has_shared_prefixes = planned.assignment.has_shared_prefixes();
  if (has_shared_prefixes)
    left.can_keep_packing = context.world().all_reduce(left.can_keep_packing ? 1 : 0, ReduceOp::min) != 0;
  if (left.can_keep_packing) return {std::move(left.tensors), {}};
  if (!left.can_reuse || has_shared_prefixes) return send_again(context, before, planned, fields, work);
  ExchangedSamples stayed;
  work([&] {
    stayed.micro_batches =
        regroup_pass(context, left.tensors, before.record->plan.micro_batches, fields, planned);
  });
  planned.gathered.pass.seconds.pack = planned.gathered.pass.stopwatch.lap();
  return stayed;
}

Exchanged add_fields(const StepContext& context, const Step& before, Planned planned, ExchangedSamples passed,
                     FieldsToAdd added, GuardedWork& work) {
  Pass& pass = planned.gathered.pass;
  std::vector<MicroBatch> micro_batches;
  std::shared_ptr<const RaggedBatch> mine = before.record->mine;
  const auto own_work = [&](ExchangedSamples& columns) {
    pass.seconds.exchange += pass.stopwatch.lap();
    replace_fields(passed.micro_batches, columns.micro_batches, added.fields);
    micro_batches = make_micro_batches(context, planned, std::move(passed.micro_batches));
    pass.seconds.pack += pass.stopwatch.lap();
  };
  if (added.fields.empty()) {
    work([&] {
      ExchangedSamples no_columns;
      own_work(no_columns);
    });
    work.agree(context.world());
  } else {
    const std::vector<CarriedField> traveling = carried_fields_of(context, added.fields, added.ranges);
    check_shared_rows(context, planned, must_compare_rows(added.fields), traveling, added.mine, work);
    const std::vector<RowCounts> row_counts = gather_row_counts(
        context.world(), planned.samples().table, added.fields, added.mine, context.config.fields);
    const std::vector<FieldSums> field_sums = gather_field_sums(
        context.world(), planned.samples().table, added.fields, context.cost_fields, added.mine);
    const AddedFields all_added{traveling, row_counts, field_sums, added.mine};
    work.run_on_replicated_data([&] { require_cut_fields_added(planned.samples(), all_added); });
    const std::vector<CarriedField> now = select_sent_fields(planned, traveling, work);
    StepTransfer transfer = transfer_of(context, planned, now, added.mine, row_counts);
    const std::vector<RowCuts> cuts = gather_cuts(context, transfer, work);
    transfer.row_cuts = cuts;
    const ExchangedSamples added_columns =
        exchange_samples(context.mesh, transfer, pass.derived, context.transport_settings(), work,
                         [&](ExchangedSamples& columns) {
                           own_work(columns);
                           mine = add_fields_to_samples(mine, all_added);  // copies the added columns
                         });
    passed.figures += added_columns.figures;
    planned.gathered.samples = add_fields_to_samples(planned.samples(), all_added);
  }
  pass.seconds.exchange += pass.stopwatch.lap();  // includes the wait for the last rank
  return {std::move(planned), std::move(micro_batches), std::move(passed.figures), std::move(mine)};
}

}  // namespace evenkeel
