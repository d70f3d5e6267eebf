#pragma once

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/step_assignment.hpp"

namespace evenkeel {

/// Gives every unit of a step to a group of its own size and the group a micro-batch of it, mini-batch by
/// mini-batch, into `assignment`: its groups, falling by size and rising by first place, what they have of
/// each mini-batch, and the micro-batches of all DP ranks. With strategy `hierarchical` by
/// schedule_context_tree, where DP ranks have as many micro-batches as they take part in; with `grid` by
/// schedule_context_waves, where they have equally many, one a wave, and those that no group of a wave needs
/// get an empty one of their own. The settings' order is then that of whole waves. Local and deterministic on
/// replicated input. Preconditions: settings.flexible; units are made.
void assign_flexible(const StepProblem& problem, StepAssignment& assignment);

/// When the last DP rank is done, and before what no plan is, in the units of the cost, over all
/// mini-batches.
struct FlexibleTime {
  Cost end = 0;
  Cost lower_bound = 0;
};
/// Of a plan that plan_step made of the problem.
[[nodiscard]] FlexibleTime flexible_time(const StepProblem& problem, const StepPlan& plan);

}  // namespace evenkeel
