#pragma once

#include <span>
#include <vector>

#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "evenkeel/service/step.hpp"
#include "exchange/samples/sample_exchange.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/exchanged.hpp"
#include "service/step/planned.hpp"
#include "service/step/step_context.hpp"

namespace evenkeel {

/// Allocates the arenas of the micro-batches `to` for the columns that regroup() will add. `to` must be laid
/// out, but must not have columns yet.
void add_arenas(std::span<const PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
                std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan);

/// Moves the sequences that a rank holds to other micro-batches, without communication. Every sequence keeps
/// its rows, including padding, in every field of `from`.
///
/// `to` holds the new micro-batches, which must be laid out. A micro-batch that lacks a field of `from` gets
/// a column for it, in which rows that are not copied are 0. Filler rows and the rows that pad to a shape are
/// not copied from `from`, so a micro-batch with such rows must already have every field in which they are
/// not 0. A field whose samples share rows keeps its single column, which `to` borrows from `from`. Throws
/// InputError if the micro-batches of `from` no longer share that column, because it was written to.
/// Preconditions: both plans have the same entries in total, and every sequence has the same aligned length
/// in both layouts. O(rows).
void regroup(std::span<PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
             std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan);

// The third stage of a later pass consists of the two functions below. If an error is not thrown by all
// ranks, it goes to this rank's `work`.

/// Collective over all ranks: returns the tensors that the previous pass left on this rank, regrouped if the
/// micro-batches differ. Sends the samples again instead if they move to other ranks, are cut differently or
/// need other fields, or if they share prefixes and the micro-batches differ. Moves the tensors out of
/// `before`.
[[nodiscard]] ExchangedSamples reuse_or_resend(const StepContext& context, Step& before, Planned& planned,
                                               GuardedWork& work);

/// Collective over all ranks: sends the added fields, and computes the loss weights of the micro-batches.
[[nodiscard]] Exchanged add_fields(const StepContext& context, const Step& before, Planned planned,
                                   ExchangedSamples passed, FieldsToAdd added, GuardedWork& work);

}  // namespace evenkeel
