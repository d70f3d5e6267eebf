#include "exchange/samples/sample_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "batch/integers.hpp"
#include "evenkeel/base/assertions.hpp"
#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"
#include "plan/micro_batches/micro_batch_layout.hpp"

namespace evenkeel {
namespace {

/// Returns the number of rows that each sample of a micro-batch has in a counted field on this rank; 0 for
/// filler.
std::vector<std::int64_t> row_counts_of_samples(const StepTransfer& step, const FieldTransfer& field,
                                                const PackedMicroBatch& m, const MicroBatchPlan& plan) {
  std::vector<std::int64_t> counts(m.samples.size());
  const std::string& cut_by = step.fields[field.source].cut_by;
  if (!cut_by.empty()) {
    const RowCuts& cuts = find_cuts(step.row_cuts, cut_by);
    for (std::size_t i = 0; i < plan.entries.size(); ++i)
      counts[i] = cuts.row_counts_of(plan.entries[i])[m.cp_rank.index()];
    return counts;
  }
  const std::span<const std::int64_t> by_entry = rows_of(step.row_counts, field.spec.name);
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    EVENKEEL_PRECONDITION(cheap, plan.entries[i].index() < by_entry.size(), field.spec.name, by_entry.size());
    counts[i] = by_entry[plan.entries[i].index()];
  }
  return counts;
}

/// Assigns the pad rows of an expert-routing field to experts in round-robin order.
void spread_pads_over_experts(Column& column, const PackedMicroBatch& m, std::int64_t experts) {
  const FieldSpec& spec = column.spec();
  const std::int64_t elements = spec.row_elements();
  if (elements == 0) return;
  const std::int64_t slots = spec.trailing.empty() ? 1 : spec.trailing.back();
  with_integer_type(spec.dtype, [&]<typename T>(T) {
    spread_routes_of_pad_rows(m.layout, m.cp_rank, m.has_filler(), elements, slots, experts,
                              column.values<T>());
  });
}

// Returns the column of a field. Rows without a sample are set to zero, to `label_pad` for labels, or as in
// spread_pads_over_experts() for expert routes. All other rows will be overwritten.
Column make_padded_column(const StepTransfer& step, const FieldTransfer& field,
                          const ColumnDescription& to_come, PackedMicroBatch& m,
                          const DerivedFieldSettings& derived) {
  const FieldSpec& spec = field.spec;
  Column column = to_come.make_column_in(m.arena);
  if (is_counted(spec.kind)) return column;  // All rows will be received.
  const bool is_labels = spec.name == labels_field;
  const std::int64_t experts = step.fields[field.source].spread_pads;
  const bool every_row_comes = spec.kind == field.moved_as;
  const bool has_rows_of_padding = m.shape && !spec.rule().is_per_token();
  if (!every_row_comes || m.has_filler() || has_rows_of_padding) {
    if (is_labels) {
      std::ranges::fill(column.values<std::int64_t>(), derived.label_pad);
    } else {
      std::ranges::fill(column.bytes(), std::byte{0});
    }
    if (experts > 0) spread_pads_over_experts(column, m, experts);
  } else if (spec.rule().is_per_token()) {
    std::vector<std::byte> pad_row(column.row_bytes());
    if (is_labels) std::ranges::copy(std::as_bytes(std::span(&derived.label_pad, 1)), pad_row.begin());
    fill_pad_rows(m.layout, m.cp_rank, pad_row, column.bytes());
    if (experts > 0) spread_pads_over_experts(column, m, experts);
  }
  return column;
}

/// Describes the columns for these fields in a micro-batch that is already laid out.
std::vector<ColumnDescription> pending_columns(const StepTransfer& step,
                                               std::span<const FieldTransfer> fields,
                                               const PackedMicroBatch& m, const MicroBatchPlan& plan) {
  std::vector<ColumnDescription> columns;
  columns.reserve(fields.size());
  for (const FieldTransfer& field : fields) {
    const FieldSpec& spec = field.spec;
    columns.push_back(is_counted(spec.kind)
                          ? ColumnDescription::make_counted(
                                spec, SampleRows::from_counts(row_counts_of_samples(step, field, m, plan)))
                          : ColumnDescription{spec, m.rows_of(spec.kind)});
  }
  return columns;
}

void add_columns(const StepTransfer& step, std::span<const FieldTransfer> fields,
                 std::span<const ColumnDescription> columns, const DerivedFieldSettings& derived,
                 PackedMicroBatch& m) {
  for (std::size_t f = 0; f < fields.size(); ++f)
    m.fields.push_back(make_padded_column(step, fields[f], columns[f], m, derived));
}

/// Adds to `columns` the descriptions of the columns that other ranks will lend to this rank's micro-batch.
void add_borrowed_columns(const StepTransfer& step, const OwnTensors& own, const PackedMicroBatch& m,
                          const MicroBatchPlan& plan, const DerivedFieldSettings& options,
                          std::vector<ColumnDescription>& columns) {
  std::vector<ColumnDescription> place_fields = pending_columns(step, own.place_fields, m, plan);
  const DerivedColumns derived(m, place_fields, own.brought, options);
  place_fields.insert(place_fields.end(), derived.columns().begin(), derived.columns().end());
  for (ColumnDescription& column : place_fields)
    if (find(columns, column.spec.name) == nullptr) columns.push_back(std::move(column));
}

}  // namespace

std::vector<FieldTransfer> fields_sent_to(const StepTransfer& step, const GridPoint& place,
                                          const GridPoint& sizes) {
  return field_transfers(step.fields, {place.pp, sizes.pp}, step.assignment.has_shared_prefixes());
}

PackedMicroBatch lay_out_rows(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan) {
  return lay_out({step.table, step.settings}, step.assignment, plan, plan.context.rank_of(mesh.data_place()));
}

DerivedColumns add_tensors(const StepTransfer& step, const OwnTensors& own, const MicroBatchPlan& plan,
                           const DerivedFieldSettings& options, PackedMicroBatch& m) {
  const std::vector<ColumnDescription> brought = pending_columns(step, own.fields, m, plan);
  DerivedColumns derived(m, brought, own.brought, options);
  std::vector<ColumnDescription> columns = brought;
  const std::span<const ColumnDescription> made_here =
      own.derives ? derived.columns() : derived.layout_columns();
  columns.insert(columns.end(), made_here.begin(), made_here.end());
  // Include borrowed columns, since the loss weights for borrowed masks are computed here.
  std::vector<ColumnDescription> all = columns;
  if (own.fields.size() != own.place_fields.size() || !own.derives)
    add_borrowed_columns(step, own, m, plan, options, all);
  for (ColumnDescription& weights : pending_weights(all, options.predict_ahead))
    columns.push_back(std::move(weights));
  m.arena = arena_for(m.layout, columns);
  derived.add_prediction_rows(m);
  add_columns(step, own.fields, brought, options, m);
  return derived;
}

void add_uncounted_columns(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan,
                           const DerivedFieldSettings& derived, PackedMicroBatch& micro_batch) {
  std::vector<FieldTransfer> fields = fields_sent_to(step, mesh.here(), mesh.grid().sizes());
  std::erase_if(fields, [](const FieldTransfer& field) { return is_counted(field.spec.kind); });
  add_columns(step, fields, pending_columns(step, fields, micro_batch, plan), derived, micro_batch);
}

}  // namespace evenkeel
