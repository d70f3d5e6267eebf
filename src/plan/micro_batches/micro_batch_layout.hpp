#pragma once

#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Returns the layout of a planned micro-batch's sequences in its tensors.
[[nodiscard]] SequenceLayout sequences_of(const MicroBatchPlan& plan, const PlanSettings& settings);

/// Returns the number of rows of a planned micro-batch's samples, before filler and padding to a shape: the
/// aligned rows over its CP group or, if samples are delivered whole, their tokens.
[[nodiscard]] std::int64_t rows_of(const MicroBatchPlan& plan, const PlanSettings& settings) noexcept;

/// Lays out a planned micro-batch for a member of its group, without fields. Each sample is one sequence;
/// with shared prefixes, the sequences are the segments of the units' trees, one tree after another. Throws
/// InputError if the micro-batch does not fit its shape or alignment, and LimitError if the packed length
/// exceeds 2^31-1.
[[nodiscard]] PackedMicroBatch lay_out(const StepProblem& problem, const StepAssignment& assignment,
                                       const MicroBatchPlan& plan, CpRank member);

}  // namespace evenkeel
