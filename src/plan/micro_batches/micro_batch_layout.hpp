#pragma once

#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Returns the layout of a planned micro-batch's sequences in its tensors.
[[nodiscard]] SequenceLayout sequences_of(const MicroBatchPlan& plan, const PlanSettings& settings);

/// Returns the number of rows of a planned micro-batch's samples over all ranks of its layout, before filler
/// and padding to a shape.
[[nodiscard]] std::int64_t rows_of(const MicroBatchPlan& plan, const PlanSettings& settings) noexcept;

/// Lays out a planned micro-batch for a member of its group, without fields. Each sample is one sequence;
/// with shared prefixes, the sequences are the segments of the units' trees, one tree after another. Throws
/// the errors of lay_out() and lay_out_shared().
[[nodiscard]] PackedMicroBatch lay_out(const StepProblem& problem, const StepAssignment& assignment,
                                       const MicroBatchPlan& plan, CpRank member);

}  // namespace evenkeel
