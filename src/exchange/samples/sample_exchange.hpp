#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/exchange/results.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "exchange/samples/exchange_figures.hpp"
#include "mesh/fail_together.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/transfer/carried_fields.hpp"
#include "plan/transfer/row_cuts.hpp"
#include "transport/messages/message_exchange.hpp"

namespace evenkeel {

/// A step's samples, ready to be moved: all of it replicated except `mine` and `micro_batches`, which are
/// this rank's.
struct StepTransfer {
  const LengthTable& table;
  const StepAssignment& assignment;
  std::span<const CarriedField> fields;           ///< agreed over all ranks, in one order
  const RaggedBatch& mine;                        ///< the samples this rank owns, as it brought them
  std::span<const MicroBatchPlan> micro_batches;  ///< the plan of this rank's DP rank
  const PlanSettings& settings;                   ///< by which it is planned
  std::span<const RowCounts> row_counts{};        ///< of the counted ones of `fields`
  /// Whether equal values may lie once in any of `fields`: equal on all ranks, whatever has failed on some.
  bool shares_equal = false;
  std::span<const RowCuts> row_cuts{};  ///< of those of `fields` that cut others
};

/// What an exchange made on one rank.
struct ExchangedSamples {
  std::vector<PackedMicroBatch> micro_batches;  ///< its K
  ExchangeFigures moved;
};

/// A micro-batch as this rank's place in the mesh holds it, without columns. Local.
[[nodiscard]] PackedMicroBatch lay_out_rows(const Mesh& mesh, const StepTransfer& step,
                                            const MicroBatchPlan& plan);

/// Adds a column for each of the step's fields that this rank's pipeline stage is sent, except counted ones,
/// of the elements that are handed out: zero in the rows that no sample brings, labels `label_pad`; the
/// others are left to be written. They stand in its arena where this has room for them. Local.
void add_uncounted_columns(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan,
                           const DerivedFieldSettings& derived, PackedMicroBatch& micro_batch);

namespace running_exchange {
class RunningExchange;
}

/// An exchange: every owner sends each place (dp, cp) only the rows that it holds, out of its columns
/// straight into the consumer's packed tensors, each field only to the pipeline stages that need it; nobody
/// ever holds the whole global batch. Of a place's model-parallel ranks (tp, pp) one a node receives, and the
/// others copy from it or, if they may (see TensorParallelCopies), read its tensors. Layers and smaller
/// integers are taken out of what samples bring, and put into what is handed out, on the way, without a pass
/// of their own where ranks read each other's memory. Missing fields are derived (see complete_fields).
///
/// Every true row travels once per place and node with ranks of it, plus one token a chunk or branch whose
/// label lives on another CP rank. Where equal values lie once, each of an owner's distinct ones travels once
/// per node with ranks that are handed it, and columns of such fields have rows in common (see SampleRows),
/// read only: one memory for all micro-batches and, where ranks of the node read each other's memory, for all
/// these ranks.
///
/// Ranks agree twice that all went well, each time in one all-reduce: before any byte travels, and at the
/// end, after each has done its own work on what was made. All ranks throw the same error: that of a rank
/// whose work has failed, or LimitError when one runs out of memory. Only MpiError may come from one rank
/// alone.
class SampleExchange {
 public:
  /// Collective over mesh.world(): up to the first agreement, on what has gone wrong in `work` so far. All
  /// arguments must outlive this.
  SampleExchange(const Mesh& mesh, const StepTransfer& step, const DerivedFieldSettings& derived,
                 const TransportSettings& options, GuardedWork& work);
  SampleExchange(const SampleExchange&) = delete;
  SampleExchange& operator=(const SampleExchange&) = delete;
  ~SampleExchange();

  /// Collective, once: moves the samples. Errors go to `work`, for end(). The result must outlive this, since
  /// other ranks may be writing into it until end() returns or throws.
  [[nodiscard]] ExchangedSamples run();
  /// Collective: the last agreement. Until then the columns of `mine` must stay as they are, since others may
  /// be reading them.
  void end();

 private:
  std::unique_ptr<running_exchange::RunningExchange> running_;
};

}  // namespace evenkeel
