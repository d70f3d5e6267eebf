#pragma once

#include <optional>

#include "evenkeel/plan/step_plan.hpp"
#include "mesh/fail_together.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/strategies/automatic.hpp"
#include "service/step/gathered.hpp"
#include "service/step/step_context.hpp"

namespace evenkeel {

/// The second stage of every pass: who gets what, and how that is cut into micro-batches.
struct Planned {
  Gathered gathered;
  StepAssignment assignment;  // replicated
  DpRankPlan plan;            // of this rank's DP rank
  ChosenShapes shapes;        // of the step; its plan has one each

  [[nodiscard]] const PlanSettings& settings() const noexcept { return gathered.pass.settings; }
  [[nodiscard]] const StepSamples& samples() const noexcept { return *gathered.samples; }
};

/// Collective over everyone. What goes wrong on this rank goes to `work`; so below.
[[nodiscard]] Planned plan_pass(const StepContext& context, Gathered gathered, GuardedWork& work);

/// Collective where shapes may be added to those that were chosen `so_far`: the plan of a first pass with
/// what its micro-batches are padded to.
[[nodiscard]] Planned choose_shapes(const StepContext& context, Planned planned, const ChosenShapes& so_far,
                                    GuardedWork& work);
/// Local: the same for a later pass, with the shapes of the step, if it has any, else those so far.
[[nodiscard]] Planned with_shapes(Planned planned, const ChosenShapes& of_step, const ChosenShapes& so_far,
                                  GuardedWork& work);

/// Collective: a strategy that the step's plan decides becomes the one that ends first, in `settings`, which
/// are the problem's. Nothing where it is decided already, or where no plan can be made.
std::optional<StrategyChoice> decide_strategy(const StepContext& context, const StepProblem& problem,
                                              PlanSettings& settings, GuardedWork& work);

/// Collective: who gets which samples.
void assign(const StepContext& context, const StepProblem& problem, StepAssignment& assignment,
            GuardedWork& work);

}  // namespace evenkeel
