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

/// Gives micro-batches `to`, laid out and without columns, arenas with room for what regroup() makes of them.
void add_arenas(std::span<const PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
                std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan);

/// Puts the sequences that a rank holds together to other micro-batches, without any communication. Every
/// sequence keeps its rows, padding included, in every field of `from`.
///
/// `to` holds the new micro-batches, laid out; those without samples have all their fields already, filler
/// rows set, and get zero columns for fields of `from` that they lack. Rows that samples have in common stay
/// where they lie, lent by `from`; InputError where its micro-batches no longer have one memory for a field,
/// since somebody has written to it. Preconditions: both plans have the same entries in all, and every
/// sequence has the same aligned length in both layouts. O(rows).
void regroup(std::span<PackedMicroBatch> from, std::span<const MicroBatchPlan> from_plan,
             std::span<PackedMicroBatch> to, std::span<const MicroBatchPlan> to_plan);

// The third stage of a later pass over a step, in two parts.

/// Collective over everyone: the tensors that the pass before left on this rank, regrouped if micro-batches
/// differ. If samples go to other ranks, they are sent again. Takes the tensors out of `before`. Errors go to
/// `work`, or are thrown on all ranks; so below.
[[nodiscard]] ExchangedSamples pass_on(const StepContext& context, Step& before, Planned& planned,
                                       GuardedWork& work);

/// Collective over everyone: sends the added fields, and computes the weights of micro-batches in the loss.
[[nodiscard]] Exchanged add_fields(const StepContext& context, const Step& before, Planned planned,
                                   ExchangedSamples passed, Added added, GuardedWork& work);

}  // namespace evenkeel
