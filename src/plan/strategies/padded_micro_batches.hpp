#pragma once

#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// The padded micro-batches of one mini-batch, whose lengths all DP ranks share (plan_padded_batches), from
/// the units that each DP rank got. O(n log n). Precondition: units are single samples.
[[nodiscard]] JointMicroBatches plan_padded(const StepProblem& problem, const PackUnits& units,
                                            const IdGroups<UnitId>& shares);

}  // namespace evenkeel
