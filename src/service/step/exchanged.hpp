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

/// Makes a micro-batch's loss weights a tensor beside its loss mask, in place of any that it has: omega where
/// the mask is set, 0 elsewhere. Without effect where it has no mask, as on most pipeline stages.
void set_token_weights(PackedMicroBatch& micro_batch, const MicroBatchLoss& loss);

/// The third stage of every pass: this rank's micro-batches with their weights in the loss.
struct Exchanged {
  Planned planned;
  std::vector<MicroBatch> micro_batches;
  ExchangeFigures moved;
  std::shared_ptr<const RaggedBatch> mine;  // this rank's own samples, for passes that assign them again
};

/// Collective over everyone: sends the samples of a first pass, `mine` on this rank, to the ranks that they
/// are planned for. All ranks throw the error of any of them, or nobody throws.
[[nodiscard]] Exchanged exchange_pass(const StepContext& context, Planned planned, RaggedBatch mine,
                                      GuardedWork& work);

/// The last stage: makes the step, with the record that later passes, results and reports need. Local.
[[nodiscard]] Step finish(Exchanged exchanged);

// Parts of an exchange that later passes use, too.

/// Local: those of the fields that this pass is sent; equal on all ranks.
[[nodiscard]] std::vector<CarriedField> sent(const Planned& planned, std::span<const CarriedField> fields,
                                             GuardedWork& work);
/// Collective if samples share prefixes and `are_shared`, which is equal on all ranks: throws on all ranks if
/// rows that should be shared differ.
void require_shared_rows(const StepContext& context, const Planned& planned, bool are_shared,
                         std::span<const CarriedField> fields, const RaggedBatch& mine,
                         const GuardedWork& work);
/// Local: the transfer that this plan asks for. It refers to the arguments, which must outlive it.
[[nodiscard]] StepTransfer transfer_of(const StepContext& context, const Planned& planned,
                                       std::span<const CarriedField> fields, const RaggedBatch& mine,
                                       std::span<const RowCounts> row_counts);
/// Collective over everyone: the cuts of rows that are cut with their samples' tokens; empty if no field has
/// such rows. Throws the error of any rank first, since the cuts need a plan on all of them.
[[nodiscard]] std::vector<RowCuts> row_cuts(const StepContext& context, const StepTransfer& transfer,
                                            const GuardedWork& work);
/// Local: the micro-batches of this plan with their weights in the loss.
[[nodiscard]] std::vector<MicroBatch> with_loss_weights(const StepContext& context, const Planned& planned,
                                                        std::vector<PackedMicroBatch> tensors);

}  // namespace evenkeel
