#pragma once

#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/micro_batch_plan.hpp"
#include "plan/step_assignment.hpp"

namespace evenkeel {

/// A planned micro-batch laid out for a CP rank, without fields: its samples one a sequence or, where they
/// share prefixes, the segments of its units' trees side by side. Throws as lay_out and lay_out_shared do.
[[nodiscard]] PackedMicroBatch lay_out(const LengthTable& table, const StepAssignment& assignment,
                                       const MicroBatchPlan& plan, const SequenceLayout& sequences,
                                       CpRank cp_rank);

}  // namespace evenkeel
