#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "batch/row_view.hpp"
#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/transfer/row_cuts.hpp"
#include "plan/transfer/transfer_plan.hpp"
#include "transport/block_list.hpp"

namespace evenkeel {

/// Properties of a step that both sides of a transfer know.
struct TransferFrame {
  const LengthTable& table;
  const StepAssignment& assignment;
  const PlanSettings& settings;
  /// Maximum number of tokens sent after each run of rows (DerivedFieldSettings::reach).
  std::int64_t reach = 1;
  [[nodiscard]] SequenceCut cut_of(SegmentId segment, EntryId entry, CpRank rank) const {
    const Segment& part = assignment.segments[segment];
    const SampleShape& shape = table[entry].shape;
    if (settings.delivery == Delivery::samples)
      return {shape.prompt, shape.length(), part.rows, shape.length(), {}, CpRank{0}};
    return {
        shape.prompt, shape.length(), part.rows, part.aligned_length, {part.group_size, settings.cp.layout},
        rank};
  }
  [[nodiscard]] SequenceCut cut_of(SegmentId segment, CpRank rank) const {
    return cut_of(segment, assignment.segments[segment].entry, rank);
  }
  /// Returns the tokens of a sample that member `rank` of its group holds: runs in ascending order over all
  /// segments of the sample's path.
  [[nodiscard]] std::vector<RowRange> tokens_of(EntryId entry, CpRank rank) const;
  /// Returns the first `reach` tokens of a segment if the CP rank needs them to label the rows before the
  /// segment but does not hold them (see branch_to_copy()).
  [[nodiscard]] RowCopies branch_rows_to_copy(SegmentId segment, CpRank rank) const;
};

/// View of whole, unchanged rows.
inline const RowView plain_rows;

/// The ragged side of a transfer: the columns of the samples that a rank owns. Its functions append to
/// `blocks` the bytes of a segment or sample that member `rank` of its group gets, one run of consecutive
/// rows after another. `view` selects and converts the elements of each row.
class RaggedSide {
 public:
  /// `batch` holds this rank's samples of the table.
  RaggedSide(const TransferFrame& frame, const RaggedBatch& batch) : frame_(frame), batch_(batch) {}

  /// Appends rows of a token field.
  void add_segment(SegmentId segment, CpRank rank, const Column& column, BlockList& blocks,
                   const RowView& view = plain_rows) const;
  /// Appends the halo tokens of a segment from an int64 token field: first the tokens after each of the
  /// rank's runs (halo_to_copy()), then the tokens of branch_rows_to_copy().
  void add_halo(SegmentId segment, CpRank rank, const Column& column, BlockList& blocks) const;
  /// Appends rows of a sample over its whole path, from a field of any kind. Depending on the kind, these are
  /// the rows of tokens that the member holds, the rows of response tokens that the member predicts, or all
  /// rows of the sample.
  void add_sample(EntryId entry, CpRank rank, const Column& column, BlockList& blocks,
                  const RowView& view = plain_rows) const;
  /// Appends rows of response tokens from a token field, whose row prompt + shift + i belongs to response
  /// token i.
  void add_responses(EntryId entry, CpRank rank, const Column& column, std::int64_t shift, BlockList& blocks,
                     const RowView& view = plain_rows) const;
  /// Appends the rows of a counted field whose token ranges include a token that the member holds. `tokens`
  /// has the token ranges (see TokensOfRows).
  void add_rows_of_tokens(EntryId entry, CpRank rank, const Column& column, const Column& tokens,
                          BlockList& blocks) const;

 private:
  void add_rows(EntryId entry, const Column& column, const RowCopies& moves, std::int64_t shift,
                BlockList& blocks, const RowView& view = plain_rows) const;

  const TransferFrame& frame_;
  const RaggedBatch& batch_;
};

/// The packed side of a transfer: the columns of a consumer's micro-batches; `columns[m]` belongs to
/// micro-batch m. Its functions append the destinations of the rows that the functions of RaggedSide append,
/// in the same order. `view` may convert elements but must cover whole rows.
class PackedSide {
 public:
  /// `place` is the consumer's place; `plans` are its micro-batches.
  PackedSide(const TransferFrame& frame, std::span<const MicroBatchPlan> plans, DataPlace place);

  void add_segment(SegmentId segment, std::span<const Column* const> columns, BlockList& blocks,
                   const RowView& view = plain_rows) const;
  /// Appends the destinations of halo tokens; `halos[m]` has halo_sizes()[m] tokens.
  void add_halo(SegmentId segment, std::span<std::vector<std::int64_t>> halos, BlockList& blocks) const;
  /// Appends the destinations of a sample's rows. `kind` is the kind of the field on the ragged side. The row
  /// of a response token goes to the row that predicts the token or, with shared prefixes, to a separate row
  /// for each prediction.
  void add_sample(EntryId entry, std::span<const Column* const> columns, FieldKind kind, BlockList& blocks,
                  const RowView& view = plain_rows) const;

  /// Returns a sample's rows in the columns of a counted field. Precondition: the place has the sample.
  [[nodiscard]] RowRange counted_rows(EntryId entry, std::span<const Column* const> columns) const;

  /// Returns this place's CP rank in the sample's group. Precondition: the place has the sample.
  [[nodiscard]] CpRank rank_of(EntryId entry) const { return ranks_[sample_slots_.at(entry).micro_batch]; }
  /// Returns the halo size of each micro-batch, in tokens: `reach` tokens per run of rows and then, with
  /// shared prefixes, `reach` tokens per segment.
  [[nodiscard]] std::span<const std::int64_t> halo_sizes() const noexcept { return halo_sizes_; }

 private:
  /// Position of a segment in the micro-batches.
  struct SegmentSlot {
    std::size_t micro_batch = 0;
    /// Index of the segment's first row among this rank's rows of the micro-batch.
    std::int64_t first_row = 0;
    std::int64_t first_run = 0;  ///< index of the segment's first run among the micro-batch's runs of rows
    /// Index, in the micro-batch's halo, of the first token of branch_rows_to_copy(); used only with shared
    /// prefixes.
    std::int64_t branch = 0;
  };
  /// Positions of a sample's rows in a micro-batch's columns.
  struct SampleSlot {
    std::size_t micro_batch = 0;
    std::int64_t row = 0;  ///< index of the sample in the micro-batch
    /// Row of the sample's first prediction; used only with shared prefixes.
    std::int64_t first_prediction = 0;
  };

  void locate_segments(std::size_t m, const MicroBatchPlan& plan);
  void locate_samples(std::size_t m, const MicroBatchPlan& plan);
  [[nodiscard]] std::int64_t count_predictions(EntryId entry, CpRank rank) const;
  void add_predictions(const SampleSlot& slot, EntryId entry, const Column& column, BlockList& blocks,
                       const RowView& view) const;

  const TransferFrame& frame_;
  std::vector<CpRank> ranks_;  // by micro-batch: this place's CP rank in the micro-batch's group
  std::unordered_map<SegmentId, SegmentSlot> segment_slots_;
  std::unordered_map<EntryId, SampleSlot> sample_slots_;
  std::vector<std::int64_t> halo_sizes_;
};

}  // namespace evenkeel
