#pragma once

#include <functional>
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

/// Input of the exchange of a step's samples. All members are replicated except `mine` and `micro_batches`,
/// which belong to this rank.
struct StepTransfer {
  const LengthTable& table;
  const StepAssignment& assignment;
  std::span<const CarriedField> fields;  ///< the fields that all ranks have agreed on, in the same order
  const RaggedBatch& mine;               ///< samples that this rank owns, in this rank's order
  std::span<const MicroBatchPlan> micro_batches;  ///< plan of this rank's DP rank
  const PlanSettings& settings;                   ///< settings of the plan
  /// Number of rows of each sample, for each counted field (is_counted()).
  std::span<const RowCounts> row_counts{};
  /// Whether equal values of any field may be stored once per node. Equal on all ranks, even after any of
  /// them has failed.
  bool shares_equal = false;
  /// Cuts of the fields whose rows are divided among CP ranks together with tokens. There is one entry per
  /// field whose token ranges cut other fields (see gather_row_cuts()).
  std::span<const RowCuts> row_cuts{};
};

/// Result of an exchange on one rank.
struct ExchangedSamples {
  std::vector<PackedMicroBatch> micro_batches;  ///< this rank's micro-batches
  ExchangeFigures figures;
};

/// Returns a micro-batch with the layout of this rank's place in the mesh, but without columns. Local.
[[nodiscard]] PackedMicroBatch lay_out_rows(const Mesh& mesh, const StepTransfer& step,
                                            const MicroBatchPlan& plan);

/// Adds a column for each uncounted field that is sent to this rank's pipeline stage, with the element type
/// that consumers get. Sets the rows without a sample to zero, to `label_pad` for labels, or to experts in
/// turn for expert routes (FieldSettings::spread_pads). Other rows may be uninitialized. Allocates the
/// columns in the micro-batch's arena if they fit. Local.
void add_uncounted_columns(const Mesh& mesh, const StepTransfer& step, const MicroBatchPlan& plan,
                           const DerivedFieldSettings& derived, PackedMicroBatch& micro_batch);

/// Exchanges the samples of a step. Collective over mesh.world().
///
/// - Each owner sends each place (dp, cp) only the rows that this place holds, directly from the owner's
///   columns into the consumer's packed tensors, and each field only to the pipeline stages that need it. No
///   rank ever holds the whole global batch.
/// - Among the model-parallel ranks (tp, pp) of a place, only one rank per node receives a field, or its part
///   for one pipeline stage. The others copy from it or, if allowed (see TensorParallelCopies), read its
///   tensors.
/// - Each row that is not padding is transferred once per place and per node that has ranks of that place. In
///   addition, a CP rank receives the tokens of other CP ranks that it needs for the labels at the end of a
///   chunk or before a branch (see DerivedFieldSettings::reach).
/// - If equal values are stored once, each distinct value of an owner is transferred only once to each node
///   with a rank that gets the value. The columns of such fields share rows (see SampleRows) and are
///   read-only: there is a single copy for all micro-batches and, if the ranks of the node can read each
///   other's memory, for all these ranks.
/// - Layers are selected and integers are converted during the transfer, without a separate pass if ranks
///   read each other's memory.
/// - Missing fields are derived (see complete_fields).
///
/// All ranks agree on errors twice, each time in one all-reduce: before any byte is transferred, and at the
/// end, after each rank has run `own_work` on its result. Until this function returns, other ranks may read
/// the columns of `step.mine`. All ranks throw the same error: the error of a rank whose work has failed, or
/// LimitError if a rank runs out of memory for columns. Only MpiError may be thrown by one rank alone.
[[nodiscard]] ExchangedSamples exchange_samples(const Mesh& mesh, const StepTransfer& step,
                                                const DerivedFieldSettings& derived,
                                                const TransportSettings& options, GuardedWork& work,
                                                const std::function<void(ExchangedSamples&)>& own_work = {});

}  // namespace evenkeel
