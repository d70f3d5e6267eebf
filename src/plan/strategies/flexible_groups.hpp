#pragma once

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// Gives every unit of a step to a group of its own size and the group a micro-batch of it, mini-batch by
/// mini-batch, into `assignment`: its groups, falling by size and rising by first place, what they have of
/// each mini-batch, and the micro-batches of all DP ranks. With strategy `hierarchical` by
/// schedule_context_tree, where DP ranks have as many micro-batches as they take part in; with `grid` by
/// schedule_context_waves, where they have equally many, one a wave. DP ranks that no group of a tree or of a
/// wave needs get an empty micro-batch of their own. With speeds a group is as fast as its slowest member,
/// and times are in units of the fastest rank's work. The settings' order is then that of whole waves. Local
/// and deterministic on replicated input. Preconditions: settings.flexible; units are made.
void assign_flexible(const StepProblem& problem, StepAssignment& assignment);

/// When the last DP rank is done, where a micro-batch's cost is the time that its ranks take for it: they
/// wait for each other at the end of each mini-batch or, where they meet, at every micro-batch too.
[[nodiscard]] Cost end_of(const StepPlan& plan, bool meets);

}  // namespace evenkeel
