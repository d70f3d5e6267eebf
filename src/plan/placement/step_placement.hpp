#pragma once

#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Gives each DP rank the share of the step that it holds most tokens of, one answer for all mini-batches
/// (best_placement); then, by the settings' placement_tolerance, reassigns single units to the DP ranks that
/// hold them (reassign_to_owners), mini-batch by mini-batch. Where a mini-batch would then need more
/// micro-batches, it is tried with a quarter of the tolerance, and again; if that does not help either, it
/// stays as it was. Counts the micro-batches of all DP ranks then, twice as a rule, five times at most.
/// Nothing changes without placement, or where nobody says which rank belongs to which DP rank.
/// Precondition: units are assigned, and micro-batches planned for grids alone.
void place_shares(const StepProblem& problem, StepAssignment& assignment);

}  // namespace evenkeel
