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

/// How many rows each sample of a micro-batch has there in a counted field. Filler has none.
std::vector<std::int64_t> rows_of_samples(const StepTransfer& step, const FieldTransfer& field,
                                          const PackedMicroBatch& m, const MicroBatchPlan& plan) {
  std::vector<std::int64_t> counts(m.samples.size());
  const std::string& cut_by = step.fields[field.source].cut_by;
  if (!cut_by.empty()) {
    const RowCuts& cuts = cuts_by(step.row_cuts, cut_by);
    for (std::size_t i = 0; i < plan.entries.size(); ++i)
      counts[i] = cuts.rows_of(plan.entries[i])[m.cp_rank.index()];
    return counts;
  }
  const std::span<const std::int64_t> by_entry = rows_of(step.row_counts, field.spec.name);
  for (std::size_t i = 0; i < plan.entries.size(); ++i) {
    EVENKEEL_PRECONDITION(cheap, plan.entries[i].index() < by_entry.size(), field.spec.name, by_entry.size());
    counts[i] = by_entry[plan.entries[i].index()];
  }
  return counts;
}

/// Pads of routes go to experts in turn.
void spread_pads(Column& column, const PackedMicroBatch& m, std::int64_t experts) {
  const FieldSpec& spec = column.spec();
  const std::int64_t elements = spec.row_elements();
  if (elements == 0) return;
  const std::int64_t slots = spec.trailing.empty() ? 1 : spec.trailing.back();
  with_integer_type(spec.dtype, [&]<typename T>(T) {
    spread_pad_rows(m.layout, m.cp_rank, m.has_filler(), elements, slots, experts, column.values<T>());
  });
}

}  // namespace

// Empty where samples bring nothing: everything else is overwritten.
Column column_for(const StepTransfer& step, const FieldTransfer& field, const PackedMicroBatch& m,
                  const MicroBatchPlan& plan, const DerivedFieldSettings& derived) {
  const FieldSpec& spec = field.spec;
  // Every row comes.
  if (is_counted(spec.kind))
    return Column::unwritten(spec, SampleRows::of_counts(rows_of_samples(step, field, m, plan)));
  const std::int64_t rows = m.rows_of(spec.kind);
  const bool is_labels = spec.name == labels_field;
  const std::int64_t experts = step.fields[field.source].spread_pads;
  const bool every_row_comes = spec.kind == field.moved_as;
  const bool has_rows_of_padding = m.shape && spec.kind != FieldKind::token;
  if (!every_row_comes || m.has_filler() || has_rows_of_padding) {
    Column column(spec, rows);
    if (is_labels) std::ranges::fill(column.values<std::int64_t>(), derived.label_pad);
    if (experts > 0) spread_pads(column, m, experts);
    return column;
  }
  Column column = Column::unwritten(spec, rows);
  if (spec.kind == FieldKind::token) {
    std::vector<std::byte> pad_row(column.row_bytes());
    if (is_labels) std::ranges::copy(std::as_bytes(std::span(&derived.label_pad, 1)), pad_row.begin());
    fill_pad_rows(m.layout, m.cp_rank, pad_row, column.bytes());
    if (experts > 0) spread_pads(column, m, experts);
  }
  return column;
}

std::vector<FieldTransfer> fields_sent_to(const StepTransfer& step, const GridPoint& place,
                                          const GridPoint& sizes) {
  return field_transfers(step.fields, {place.pp, sizes.pp}, step.assignment.shared());
}

PackedMicroBatch lay_out_rows(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan) {
  return lay_out({step.table, step.settings}, step.assignment, plan, plan.context.rank_of(mesh.data_place()));
}

PackedMicroBatch lay_out_micro_batch(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan,
                                     const DerivedFieldSettings& derived) {
  PackedMicroBatch m = lay_out_rows(mesh, step, plan);
  for (const FieldTransfer& field : fields_sent_to(step, mesh.here(), mesh.grid().sizes())) {
    if (is_counted(field.spec.kind)) continue;
    m.fields.push_back(column_for(step, field, m, plan, derived));
  }
  return m;
}

}  // namespace evenkeel
