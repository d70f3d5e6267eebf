#pragma once

#include "plan/assign/step_assignment.hpp"
#include "plan/units/segments.hpp"

namespace evenkeel {

/// The segments of a step's units, numbered unit after unit, with the lengths that they have in the tensors:
/// aligned, or padded where padded micro-batches are planned. O(samples + segments).
[[nodiscard]] SegmentTable segments_of_units(const StepProblem& problem, const StepAssignment& assignment);

}  // namespace evenkeel
