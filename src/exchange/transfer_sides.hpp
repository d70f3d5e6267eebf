#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/exchange/block_list.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/dealt_step.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/micro_batch_plan.hpp"
#include "evenkeel/plan/transfer_plan.hpp"

namespace evenkeel {

/// What both sides of a transfer know about the step.
struct TransferFrame {
  const LengthTable& table;
  const DealtStep& dealt;
  CpGroup cp;

  [[nodiscard]] SequenceCut cut_of(std::int64_t entry, CpRank rank) const {
    const SampleShape& shape = table[entry].shape;
    return {shape.prompt, shape.length(), dealt.aligned_lengths[static_cast<std::size_t>(entry)], cp, rank};
  }
};

/// The ragged side: columns of the samples a rank owns. Appends the bytes of one sample that CP rank `rank`
/// holds, field after field and run after run.
class RaggedSide {
 public:
  /// `columns` are of `batch`, whose samples are this rank's in the table.
  RaggedSide(const TransferFrame& frame, const RaggedBatch& batch, std::vector<const Column*> columns)
      : frame_(frame), batch_(batch), columns_(std::move(columns)) {}

  void add_field(std::int64_t entry, CpRank rank, std::size_t field, BlockList& blocks) const;
  /// The tokens after the runs, of an int64 token field.
  void add_halo(std::int64_t entry, CpRank rank, std::size_t field, BlockList& blocks) const;

 private:
  void add_rows(std::int64_t entry, std::size_t field, const RowMoves& moves, BlockList& blocks) const;

  const TransferFrame& frame_;
  const RaggedBatch& batch_;
  std::vector<const Column*> columns_;
};

/// The packed side: columns of a consumer's micro-batches. Appends the bytes at which one sample's rows
/// stand, in the same order.
class PackedSide {
 public:
  /// Field f of a micro-batch is the same for all of them. `micro_batches` may still get fields after
  /// construction.
  PackedSide(const TransferFrame& frame, std::span<const MicroBatchPlan> plans, CpRank rank);

  /// `columns[m]` is the field's column of micro-batch m; `kind` is the kind it has on the ragged side.
  void add_field(std::int64_t entry, std::span<const Column* const> columns, FieldKind kind,
                 BlockList& blocks) const;
  /// The places of the tokens after the runs; `halos[m]` has one token a run of micro-batch m.
  void add_halo(std::int64_t entry, std::span<std::vector<std::int64_t>> halos, BlockList& blocks) const;

  /// Runs of true rows in each micro-batch.
  [[nodiscard]] std::span<const std::int64_t> num_runs() const noexcept { return num_runs_; }

 private:
  /// Where a sample stands among the micro-batches.
  struct Slot {
    std::size_t micro_batch = 0;
    std::int64_t sequence = 0;
    std::int64_t first_row = 0;  ///< of the sequence in local packed rows
    std::int64_t first_run = 0;  ///< of the sequence among the micro-batch's runs
  };

  const TransferFrame& frame_;
  CpRank rank_;
  std::unordered_map<std::int64_t, Slot> slots_;  // by table entry
  std::vector<std::int64_t> num_runs_;
};

}  // namespace evenkeel
