#pragma once

#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// How the sequences of a planned micro-batch stand in its tensors.
[[nodiscard]] SequenceLayout sequences_of(const MicroBatchPlan& plan, const PlanSettings& settings);

/// A planned micro-batch laid out for a member of its group, without fields: its samples one a sequence or,
/// where they share prefixes, the segments of its units' trees side by side. Throws as lay_out and
/// lay_out_shared do.
[[nodiscard]] PackedMicroBatch lay_out(const StepProblem& problem, const StepAssignment& assignment,
                                       const MicroBatchPlan& plan, CpRank member);

}  // namespace evenkeel
