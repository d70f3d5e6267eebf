#pragma once

#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Packs one mini-batch first and distributes it second (strategy `grid`): builds dp * K micro-batches from
/// all its units and lays them out so that the DP ranks' j-th micro-batches cost nearly the same for every j,
/// then so that the ranks' totals do (partition_into_grid). For ranks that meet at every micro-batch: FSDP,
/// all-to-all of experts.
///
/// K is agreed_count of the cells needed, shared out over dp: never more than a plan rank by rank would take.
/// The cap and the sample limit hold always; micro-batches may be empty. The settings' order is that of
/// whole columns, by their costliest micro-batch, so that it is the same on all ranks.
///
/// Local and deterministic on replicated input: every rank computes the whole grid and finds the same.
/// Precondition: the units of the mini-batch ascend, and fit under the limits.
[[nodiscard]] MiniBatchAssignment assign_grid(const StepProblem& problem, const PackUnits& units,
                                              IdView<UnitId> mini_batch);

}  // namespace evenkeel
