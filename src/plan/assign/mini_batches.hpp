#pragma once

#include <vector>

#include "evenkeel/plan/step_plan.hpp"
#include "plan/units/id_groups.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

/// Cuts a step into settings.mini_batches before anything is assigned: the units of each, ascending. Cuts
/// stand between groups of samples that share something; sizes differ by one group at most. Runs of groups in
/// order, or of a drawn order. Pure, deterministic.
[[nodiscard]] IdGroups<UnitId> cut_into_mini_batches(const StepProblem& problem, const PackUnits& units);

/// The hierarchy global batch -> mini-batch -> DP rank of one step: the units of each DP rank, mini-batch
/// after mini-batch. Every unit stands in one of them. With `keep` mini-batches are cut first and each is
/// assigned by assign_to_dp_ranks; else the step is, and each rank's share cut at random, between units. With
/// less to cut than mini-batches some are empty. Pure and deterministic on replicated input.
[[nodiscard]] std::vector<IdGroups<UnitId>> split_into_mini_batches(const StepProblem& problem,
                                                                    const PackUnits& units);

}  // namespace evenkeel
