#pragma once

#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Gives each DP rank the share of the step that it holds most tokens of (best_placement), the same share
/// number in all mini-batches. Nothing changes without placement, or if nobody says which rank belongs to
/// which DP rank.
/// Precondition: units are assigned, and micro-batches planned for grids alone.
void place_shares(const StepProblem& problem, StepAssignment& assignment);

}  // namespace evenkeel
