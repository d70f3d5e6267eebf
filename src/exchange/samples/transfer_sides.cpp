#include "exchange/samples/transfer_sides.hpp"

#include <utility>

namespace evenkeel {
namespace {

void add(const Column& column, std::int64_t first, std::int64_t rows, const RowView& view,
         BlockList& blocks) {
  blocks.add(column.row(first), rows, column.row_bytes(), view);
}

}  // namespace

std::vector<RowRange> TransferFrame::tokens_of(EntryId entry, CpRank rank) const {
  std::vector<RowRange> runs;
  for (const SegmentId segment : assignment.segments.path_of(entry)) {
    for (const RowCopy& move : rows_to_copy(FieldKind::token, cut_of(segment, entry, rank)))
      runs.push_back(move.source);
  }
  return runs;
}

RowCopies TransferFrame::branch_rows_to_copy(SegmentId segment, CpRank rank) const {
  const Segment& part = assignment.segments[segment];
  if (part.rows.empty()) return {};
  for (const SegmentId s : assignment.segments.path_of(part.entry)) {
    const RowRange& rows = assignment.segments[s].rows;
    if (!rows.empty() && rows.end == part.rows.begin)
      return branch_to_copy(cut_of(s, part.entry, rank), cut_of(segment, rank), reach);
  }
  return {};
}

void RaggedSide::add_segment(SegmentId segment, CpRank rank, const Column& column, BlockList& blocks,
                             const RowView& view) const {
  const SequenceCut cut = frame_.cut_of(segment, rank);
  add_rows(frame_.assignment.segments[segment].entry, column, rows_to_copy(FieldKind::token, cut), 0, blocks,
           view);
}

void RaggedSide::add_halo(SegmentId segment, CpRank rank, const Column& column, BlockList& blocks) const {
  const EntryId entry = frame_.assignment.segments[segment].entry;
  add_rows(entry, column, halo_to_copy(frame_.cut_of(segment, rank), frame_.reach), 0, blocks);
  add_rows(entry, column, frame_.branch_rows_to_copy(segment, rank), 0, blocks);
}

void RaggedSide::add_sample(EntryId entry, CpRank rank, const Column& column, BlockList& blocks,
                            const RowView& view) const {
  const FieldKind kind = column.spec().kind;
  if (!rule_of(kind).is_cut()) {
    const RowRange rows = batch_.rows_of(column, frame_.table[entry].owner_index);
    add(column, rows.begin, rows.size(), view, blocks);
    return;
  }
  for (const SegmentId segment : frame_.assignment.segments.path_of(entry)) {
    add_rows(entry, column, rows_to_copy(kind, frame_.cut_of(segment, entry, rank)), 0, blocks, view);
  }
}

void RaggedSide::add_responses(EntryId entry, CpRank rank, const Column& column, std::int64_t shift,
                               BlockList& blocks, const RowView& view) const {
  const std::int64_t first = frame_.table[entry].shape.prompt + shift;
  for (const SegmentId segment : frame_.assignment.segments.path_of(entry)) {
    const SequenceCut cut = frame_.cut_of(segment, entry, rank);
    add_rows(entry, column, rows_to_copy(FieldKind::response_token, cut), first, blocks, view);
  }
}

void RaggedSide::add_rows_of_tokens(EntryId entry, CpRank rank, const Column& column, const Column& tokens,
                                    BlockList& blocks) const {
  const std::int32_t sample = frame_.table[entry].owner_index;
  const std::int64_t base = column.samples()[sample].begin;
  for (const RowRange& rows : tokens_of_rows(tokens, sample).rows_overlapping(frame_.tokens_of(entry, rank)))
    add(column, base + rows.begin, rows.size(), plain_rows, blocks);
}

void RaggedSide::add_rows(EntryId entry, const Column& column, const RowCopies& moves, std::int64_t shift,
                          BlockList& blocks, const RowView& view) const {
  const std::int64_t base = batch_.rows_of(column, frame_.table[entry].owner_index).begin + shift;
  for (const RowCopy& move : moves) add(column, base + move.source.begin, move.source.size(), view, blocks);
}

PackedSide::PackedSide(const TransferFrame& frame, std::span<const MicroBatchPlan> plans, DataPlace place)
    : frame_(frame) {
  for (std::size_t m = 0; m < plans.size(); ++m) {
    ranks_.push_back(plans[m].context.rank_of(place));
    locate_segments(m, plans[m]);
    locate_samples(m, plans[m]);
  }
}

void PackedSide::locate_segments(std::size_t m, const MicroBatchPlan& plan) {
  std::int64_t row = 0;
  std::int64_t run = 0;
  const std::vector<SegmentId> segments = segments_of(frame_.assignment, plan);
  for (const SegmentId segment : segments) {
    segment_slots_[segment] = {m, row, run, 0};
    const SequenceCut cut = frame_.cut_of(segment, ranks_[m]);
    row += cut.aligned_length / cut.cp.size;
    run += static_cast<std::int64_t>(rows_to_copy(FieldKind::token, cut).size());
  }
  halo_sizes_.push_back(run * frame_.reach);
  if (!frame_.assignment.has_shared_prefixes()) return;
  for (const SegmentId segment : segments)
    segment_slots_[segment].branch = std::exchange(halo_sizes_.back(), halo_sizes_.back() + frame_.reach);
}

void PackedSide::locate_samples(std::size_t m, const MicroBatchPlan& plan) {
  std::int64_t prediction = 0;
  std::int64_t row = 0;
  for (const EntryId entry : plan.entries) {
    sample_slots_[entry] = {m, row++, prediction};
    if (frame_.assignment.has_shared_prefixes()) prediction += count_predictions(entry, ranks_[m]);
  }
}

std::int64_t PackedSide::count_predictions(EntryId entry, CpRank rank) const {
  std::int64_t predictions = 0;
  for (const SegmentId segment : frame_.assignment.segments.path_of(entry)) {
    for (const RowCopy& move : rows_to_copy(FieldKind::response_token, frame_.cut_of(segment, entry, rank))) {
      predictions += move.source.size();
    }
  }
  return predictions;
}

void PackedSide::add_segment(SegmentId segment, std::span<const Column* const> columns, BlockList& blocks,
                             const RowView& view) const {
  const SegmentSlot& slot = segment_slots_.at(segment);
  const Column& column = *columns[slot.micro_batch];
  for (const RowCopy& move : rows_to_copy(FieldKind::token, frame_.cut_of(segment, ranks_[slot.micro_batch])))
    add(column, slot.first_row + move.target, move.source.size(), view, blocks);
}

void PackedSide::add_halo(SegmentId segment, std::span<std::vector<std::int64_t>> halos,
                          BlockList& blocks) const {
  const SegmentSlot& slot = segment_slots_.at(segment);
  const auto add = [&](std::int64_t first, const RowCopy& move) {
    const std::span<const std::int64_t> tokens = std::span<const std::int64_t>(halos[slot.micro_batch])
                                                     .subspan(static_cast<std::size_t>(first + move.target),
                                                              static_cast<std::size_t>(move.source.size()));
    blocks.add(std::as_bytes(tokens).data(), static_cast<std::int64_t>(tokens.size_bytes()));
  };
  const CpRank rank = ranks_[slot.micro_batch];
  for (const RowCopy& move : halo_to_copy(frame_.cut_of(segment, rank), frame_.reach))
    add(slot.first_run * frame_.reach, move);
  for (const RowCopy& move : frame_.branch_rows_to_copy(segment, rank)) add(slot.branch, move);
}

void PackedSide::add_sample(EntryId entry, std::span<const Column* const> columns, FieldKind kind,
                            BlockList& blocks, const RowView& view) const {
  const SampleSlot& slot = sample_slots_.at(entry);
  const Column& column = *columns[slot.micro_batch];
  if (rule_of(kind).is_per_sample()) {
    add(column, slot.row, 1, view, blocks);
    return;
  }
  if (is_counted(kind)) {
    const RowRange rows = counted_rows(entry, columns);
    add(column, rows.begin, rows.size(), view, blocks);
    return;
  }
  if (rule_of(kind).is_per_response_token() && frame_.assignment.has_shared_prefixes()) {
    add_predictions(slot, entry, column, blocks, view);
    return;
  }
  for (const SegmentId segment : frame_.assignment.segments.path_of(entry)) {
    const std::int64_t base = segment_slots_.at(segment).first_row;
    for (const RowCopy& move : rows_to_copy(kind, frame_.cut_of(segment, entry, ranks_[slot.micro_batch])))
      add(column, base + move.target, move.source.size(), view, blocks);
  }
}

RowRange PackedSide::counted_rows(EntryId entry, std::span<const Column* const> columns) const {
  const SampleSlot& slot = sample_slots_.at(entry);
  return columns[slot.micro_batch]->samples()[slot.row];
}

void PackedSide::add_predictions(const SampleSlot& slot, EntryId entry, const Column& column,
                                 BlockList& blocks, const RowView& view) const {
  const std::int64_t predictions = count_predictions(entry, ranks_[slot.micro_batch]);
  add(column, slot.first_prediction, predictions, view, blocks);
}

}  // namespace evenkeel
