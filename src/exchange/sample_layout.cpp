#include "exchange/sample_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "pack/pack_rows.hpp"

namespace evenkeel {
namespace {

/// The trees of a micro-batch's units side by side.
PrefixTree forest_of(const StepAssignment& assignment, const MicroBatchPlan& plan) {
  std::vector<TreeNode> nodes;
  std::vector<std::int64_t> ends;
  for (const UnitId unit : plan.units) {
    const PrefixTree& tree = *assignment.units[unit].tree;
    const std::int64_t first = std::ssize(nodes);
    for (const TreeSegment& segment : tree.segments())
      nodes.push_back({segment.parent == -1 ? -1 : first + segment.parent, segment.rows.size()});
    for (const std::int64_t end : tree.sample_ends()) ends.push_back(end == -1 ? -1 : first + end);
  }
  return {nodes, std::move(ends)};
}

/// A column of a field that samples bring, empty where they bring nothing: everything else is overwritten.
Column column_for(const FieldTransfer& field, const PackedMicroBatch& m,
                  const DerivedFieldSettings& derived) {
  const FieldSpec& spec = field.spec;
  const std::int64_t rows = m.rows_of(spec.kind);
  const bool is_labels = spec.name == labels_field;
  const bool every_row_comes = spec.kind == field.moved_as;
  if (!every_row_comes || m.has_filler()) {
    Column column(spec, rows);
    if (is_labels) std::ranges::fill(column.values<std::int64_t>(), derived.label_pad);
    return column;
  }
  Column column = Column::unwritten(spec, rows);
  if (spec.kind == FieldKind::token) {
    std::vector<std::byte> pad_row(column.row_bytes());
    if (is_labels) std::ranges::copy(std::as_bytes(std::span(&derived.label_pad, 1)), pad_row.begin());
    fill_pad_rows(m.layout, m.cp_rank, pad_row, column.bytes());
  }
  return column;
}

}  // namespace

std::vector<FieldTransfer> fields_sent_to(const StepTransfer& step, const GridPoint& place,
                                          const GridPoint& sizes) {
  return field_transfers(step.fields, {place.pp, sizes.pp}, step.assignment.shared());
}

PackedMicroBatch lay_out_rows(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan) {
  std::vector<SampleShape> samples;
  for (const EntryId entry : plan.entries) samples.push_back(step.table[entry].shape);
  const SequenceLayout sequences{step.alignment, plan.padded_length, step.cp};
  const CpRank rank{mesh.here().cp};
  if (!step.assignment.shared()) return lay_out(std::move(samples), sequences, rank);
  return lay_out_shared(std::move(samples), forest_of(step.assignment, plan), sequences, rank);
}

PackedMicroBatch lay_out_micro_batch(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan,
                                     const DerivedFieldSettings& derived) {
  PackedMicroBatch m = lay_out_rows(mesh, step, plan);
  for (const FieldTransfer& field : fields_sent_to(step, mesh.here(), mesh.grid().sizes())) {
    m.fields.push_back(column_for(field, m, derived));
  }
  return m;
}

}  // namespace evenkeel
