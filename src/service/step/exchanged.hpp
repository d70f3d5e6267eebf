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

/// Adds a tensor of loss weights for each of a micro-batch's loss masks, replacing earlier weights. If a row
/// of the mask is set, its weight is the sample's token weight in `loss`, otherwise 0. Does nothing if the
/// micro-batch does not have a loss mask, which is the case on most pipeline stages.
void set_token_weights(PackedMicroBatch& micro_batch, const MicroBatchLoss& loss);

/// Result of the third stage of every pass: this rank's micro-batches with their loss weights.
struct Exchanged {
  Planned planned;
  std::vector<MicroBatch> micro_batches;
  ExchangeFigures figures;
  std::shared_ptr<const RaggedBatch> mine;  // this rank's samples, kept for later passes; may be null
};

/// Collective over all ranks: sends the samples of a first pass (`mine` on this rank) to the ranks to which
/// the plan assigns them. If any rank has an error, all ranks throw it.
[[nodiscard]] Exchanged exchange_pass(const StepContext& context, Planned planned, RaggedBatch mine,
                                      GuardedWork& work);

/// The last stage: makes the step, with the record that later passes, the return of results, and reports
/// need. Local.
[[nodiscard]] Step make_step(Exchanged exchanged);

// The functions below are parts of an exchange that later passes also use.

/// Local: selects the fields that are transferred under the profile of this pass, with the same result on all
/// ranks. If samples supply fields that pack.predict_ahead or pack.padding_mask derives, an InputError goes
/// to `work`.
[[nodiscard]] std::vector<CarriedField> select_sent_fields(const Planned& planned,
                                                           std::span<const CarriedField> fields,
                                                           GuardedWork& work);
/// Throws InputError on all ranks if samples have different rows in a prefix that they share. `are_shared` is
/// the result of must_compare_rows() and must be equal on all ranks. Does nothing if it is false or prefixes
/// are not shared; otherwise, this function is collective, and if any rank has failed, all ranks throw its
/// error.
void check_shared_rows(const StepContext& context, const Planned& planned, bool are_shared,
                       std::span<const CarriedField> fields, const RaggedBatch& mine,
                       const GuardedWork& work);
/// Local: returns the transfer for this plan. The result refers to the arguments, which must outlive it.
[[nodiscard]] StepTransfer transfer_of(const StepContext& context, const Planned& planned,
                                       std::span<const CarriedField> fields, const RaggedBatch& mine,
                                       std::span<const RowCounts> row_counts);
/// Returns the row counts of the fields whose rows are divided among the CP ranks by ranges of tokens
/// (FieldSettings::cut_by). If there are no such fields, returns an empty list without communication.
/// Otherwise collective over all ranks: the gather needs a plan on every rank, so if any rank has failed, all
/// ranks throw its error first.
[[nodiscard]] std::vector<RowCuts> gather_cuts(const StepContext& context, const StepTransfer& transfer,
                                               const GuardedWork& work);
/// Local: returns the micro-batches of this plan with their loss weights.
[[nodiscard]] std::vector<MicroBatch> make_micro_batches(const StepContext& context, const Planned& planned,
                                                         std::vector<PackedMicroBatch> tensors);

}  // namespace evenkeel
