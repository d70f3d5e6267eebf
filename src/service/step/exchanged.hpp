#pragma once

#include <memory>
#include <span>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/loss.hpp"
#include "evenkeel/service/step.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "plan/transfer/carried_fields.hpp"
#include "service/step/planned.hpp"

namespace evenkeel {

/// Adds a tensor of loss weights next to a micro-batch's loss mask, replacing earlier weights: omega if a row
/// of the mask is set, otherwise 0. Does nothing if the micro-batch does not have a mask, as on most pipeline
/// stages.
void set_token_weights(PackedMicroBatch& micro_batch, const MicroBatchLoss& loss);

/// The third stage of every pass: this rank's micro-batches with their weights in the loss.
struct Exchanged {
  Planned planned;
  std::vector<MicroBatch> micro_batches;
  ExchangeFigures moved;
  std::shared_ptr<const RaggedBatch> mine;  // this rank's samples, for passes that assign them again
};

/// Collective over all ranks: sends the samples of a first pass (`mine` on this rank) to the ranks to which
/// the plan assigns them. If any rank has an error, all ranks throw it.
[[nodiscard]] Exchanged exchange_pass(const StepContext& context, Planned planned, RaggedBatch mine,
                                      GuardedWork& work);

/// The last stage: makes the step, with the record needed by later passes, results and reports. Local.
[[nodiscard]] Step make_step(Exchanged exchanged);

// The functions below are parts of an exchange that later passes also use.

/// Local: selects the fields that are transferred under the profile of this pass, with the same result on all
/// ranks. If samples have fields that pack.predict_ahead or pack.padding_mask derives, passes an InputError
/// to `work`.
[[nodiscard]] std::vector<CarriedField> select_sent_fields(const Planned& planned,
                                                           std::span<const CarriedField> fields,
                                                           GuardedWork& work);
/// Throws InputError on all ranks if rows that samples should share differ. Collective if samples share
/// prefixes and `are_shared`, which must be equal on all ranks.
void require_shared_rows(const StepContext& context, const Planned& planned, bool are_shared,
                         std::span<const CarriedField> fields, const RaggedBatch& mine,
                         const GuardedWork& work);
/// Local: returns the transfer for this plan. It keeps references to the arguments, which must outlive it.
[[nodiscard]] StepTransfer transfer_of(const StepContext& context, const Planned& planned,
                                       std::span<const CarriedField> fields, const RaggedBatch& mine,
                                       std::span<const RowCounts> row_counts);
/// Collective over all ranks: returns the cuts of fields whose rows are cut together with their samples'
/// tokens; empty if there are no such fields. If any rank has failed, all ranks throw its error before the
/// gather, which needs a plan on every rank.
[[nodiscard]] std::vector<RowCuts> gather_cuts(const StepContext& context, const StepTransfer& transfer,
                                               const GuardedWork& work);
/// Local: returns the micro-batches of this plan with their weights in the loss.
[[nodiscard]] std::vector<MicroBatch> with_loss_weights(const StepContext& context, const Planned& planned,
                                                        std::vector<PackedMicroBatch> tensors);

}  // namespace evenkeel
