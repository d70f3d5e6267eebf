#pragma once

#include <span>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/step.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "plan/transfer/carried_fields.hpp"
#include "service/step/planned.hpp"

namespace evenkeel {

/// The third stage of every pass: this rank's micro-batches, with what they weigh in the loss.
struct Exchanged {
  Planned planned;
  std::vector<MicroBatch> micro_batches;
  ExchangeFigures moved;
};

/// Collective over everyone: sends the samples of a first pass to who was planned to get them. All ranks
/// throw what went wrong on any of them, or nobody does.
[[nodiscard]] Exchanged exchange_pass(const StepContext& context, Planned planned, Brought brought,
                                      GuardedWork& work);

/// The last stage: the step. Takes no memory.
[[nodiscard]] Step finish(Exchanged exchanged) noexcept;

// What later passes do, too.

/// Collective where integers are narrowed: what travels of agreed fields. What goes wrong goes to `work`.
[[nodiscard]] std::vector<CarriedField> carried(const StepContext& context, std::span<const FieldSpec> fields,
                                                OwnRanges& ranges, GuardedWork& work);
/// Local: those of the fields that this pass is sent; equal on all ranks.
[[nodiscard]] std::vector<CarriedField> sent(const Planned& planned, std::span<const CarriedField> fields,
                                             GuardedWork& work);
/// Collective where samples share prefixes and fields have shared rows, of which all ranks say alike whether
/// they do, also one that has failed: throws on all ranks where such rows differ.
void require_shared_rows(const StepContext& context, const Planned& planned, bool are_shared,
                         std::span<const CarriedField> fields, const RaggedBatch& mine,
                         const GuardedWork& work);
/// What travels by this plan; refers to its arguments.
[[nodiscard]] StepTransfer transfer_of(const StepContext& context, const Planned& planned,
                                       std::span<const CarriedField> fields, const RaggedBatch& mine,
                                       std::span<const RowCounts> row_counts);
/// Collective over everyone: how rows are cut that are cut with their samples' tokens; without effect where
/// none are. All have one plan by which to cut them once none has failed: throws what went wrong on any.
[[nodiscard]] std::vector<RowCuts> row_cuts(const StepContext& context, const StepTransfer& transfer,
                                            const GuardedWork& work);
/// Local: the micro-batches of this plan, with what they weigh in the loss.
[[nodiscard]] std::vector<MicroBatch> weighed(const StepContext& context, const Planned& planned,
                                              std::vector<PackedMicroBatch> tensors);

}  // namespace evenkeel
