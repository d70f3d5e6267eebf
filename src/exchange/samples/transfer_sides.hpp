#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "batch/row_view.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/transfer/row_cuts.hpp"
#include "plan/transfer/transfer_plan.hpp"
#include "transport/block_list.hpp"

namespace evenkeel {

/// What both sides of a transfer know about the step.
struct TransferFrame {
  const LengthTable& table;
  const StepAssignment& assignment;
  CpLayout layout;
  std::int64_t reach = 1;  ///< tokens after each run of rows that are sent with it, see DerivedFieldSettings

  /// How a segment is cut over its group, seen as a part of its own sample or of another one whose path it is
  /// on.
  [[nodiscard]] SequenceCut cut_of(SegmentId segment, EntryId entry, CpRank rank) const {
    const Segment& part = assignment.segments[segment];
    const SampleShape& shape = table[entry].shape;
    return {shape.prompt, shape.length(), part.rows, part.aligned_length, {part.group_size, layout}, rank};
  }
  [[nodiscard]] SequenceCut cut_of(SegmentId segment, CpRank rank) const {
    return cut_of(segment, assignment.segments[segment].entry, rank);
  }
  /// The tokens of a sample that member `rank` of its group has, as runs in order: over its whole path.
  [[nodiscard]] std::vector<RowRange> tokens_of(EntryId entry, CpRank rank) const;
  /// The first tokens of a segment, for a CP rank that predicts them and does not have them.
  [[nodiscard]] RowCopies branch_of(SegmentId segment, CpRank rank) const;
};

/// Rows travel whole and as they are.
inline const RowView plain_rows;

/// The ragged side: columns of the samples a rank owns. Appends the bytes of one segment or sample that
/// member `rank` of its group holds, run after run: what `view` takes of the column's rows.
class RaggedSide {
 public:
  /// `batch` holds this rank's samples of the table.
  RaggedSide(const TransferFrame& frame, const RaggedBatch& batch) : frame_(frame), batch_(batch) {}

  /// Rows of a token field.
  void add_segment(SegmentId segment, CpRank rank, const Column& column, BlockList& blocks,
                   const RowView& view = plain_rows) const;
  /// The tokens of an int64 token field that labels need beside the segment's: those after the runs, then
  /// what branch_of names.
  void add_halo(SegmentId segment, CpRank rank, const Column& column, BlockList& blocks) const;
  /// Rows of a sample over its whole path, of a field of any kind: those of its tokens, of its response
  /// tokens whose predicting rows the rank holds, or its own.
  void add_sample(EntryId entry, CpRank rank, const Column& column, BlockList& blocks,
                  const RowView& view = plain_rows) const;
  /// The same for response tokens out of a token field, whose row prompt + shift + i is of response token i.
  void add_responses(EntryId entry, CpRank rank, const Column& column, std::int64_t shift, BlockList& blocks,
                     const RowView& view = plain_rows) const;
  /// Rows of a counted field, those alone that have a token of the member's, as `tokens` says (see
  /// TokensOfRows).
  void add_rows_of_tokens(EntryId entry, CpRank rank, const Column& column, const Column& tokens,
                          BlockList& blocks) const;

 private:
  void add_rows(EntryId entry, const Column& column, const RowCopies& moves, std::int64_t shift,
                BlockList& blocks, const RowView& view = plain_rows) const;

  const TransferFrame& frame_;
  const RaggedBatch& batch_;
};

/// The packed side: columns of a consumer's micro-batches, `columns[m]` of micro-batch m. Appends the bytes
/// at which the same rows stand, in the same order; `view` takes whole rows of them.
class PackedSide {
 public:
  /// As place `place` holds them.
  PackedSide(const TransferFrame& frame, std::span<const MicroBatchPlan> plans, DataPlace place);

  void add_segment(SegmentId segment, std::span<const Column* const> columns, BlockList& blocks,
                   const RowView& view = plain_rows) const;
  /// The places of these tokens; `halos[m]` has halo_sizes()[m] of them.
  void add_halo(SegmentId segment, std::span<std::vector<std::int64_t>> halos, BlockList& blocks) const;
  /// `kind` is the kind the field has on the ragged side. Response tokens stand beside their labels: at the
  /// rows that predict them or, with shared prefixes, one a prediction.
  void add_sample(EntryId entry, std::span<const Column* const> columns, FieldKind kind, BlockList& blocks,
                  const RowView& view = plain_rows) const;

  /// A sample's rows in the columns of a counted field. Precondition: the place has the sample.
  [[nodiscard]] RowRange counted_rows(EntryId entry, std::span<const Column* const> columns) const;

  /// Which member of its sample's group this place is. Precondition: the place has the sample.
  [[nodiscard]] CpRank rank_of(EntryId entry) const { return ranks_[sample_slots_.at(entry).micro_batch]; }
  /// For each micro-batch the frame's reach of tokens a run of true rows and then, with shared prefixes, a
  /// segment.
  [[nodiscard]] std::span<const std::int64_t> halo_sizes() const noexcept { return halo_sizes_; }

 private:
  /// Where a segment stands among the micro-batches.
  struct SegmentSlot {
    std::size_t micro_batch = 0;
    std::int64_t first_row = 0;  ///< in local packed rows
    std::int64_t first_run = 0;  ///< among the micro-batch's runs
    std::int64_t branch = 0;     ///< in the micro-batch's halo, with shared prefixes
  };
  /// Where a sample's own rows stand.
  struct SampleSlot {
    std::size_t micro_batch = 0;
    std::int64_t row = 0;               ///< among the micro-batch's samples
    std::int64_t first_prediction = 0;  ///< with shared prefixes
  };

  void add_segments(std::size_t m, const MicroBatchPlan& plan);
  void add_samples(std::size_t m, const MicroBatchPlan& plan);
  [[nodiscard]] std::int64_t predictions_of(EntryId entry, CpRank rank) const;
  void add_predictions(const SampleSlot& slot, EntryId entry, const Column& column, BlockList& blocks,
                       const RowView& view) const;

  const TransferFrame& frame_;
  std::vector<CpRank> ranks_;  // by micro-batch: which part is this place's
  std::unordered_map<SegmentId, SegmentSlot> segment_slots_;
  std::unordered_map<EntryId, SampleSlot> sample_slots_;
  std::vector<std::int64_t> halo_sizes_;
};

}  // namespace evenkeel
