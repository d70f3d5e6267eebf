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
  PlanSettings settings;                   // with the strategy decided
  std::optional<StrategyChoice> strategy;  // where the step's samples decided it
  StepAssignment assignment;               // replicated
  DpRankPlan plan;                         // of this rank's DP rank
  ChosenShapes shapes;                     // of the step; its plan has one each

  [[nodiscard]] const Pass& pass() const noexcept { return gathered.pass; }
  [[nodiscard]] const StepSamples& samples() const noexcept { return *gathered.samples; }
};

/// Collective over everyone. Errors of this rank go to `work`; so below.
[[nodiscard]] Planned plan_pass(const StepContext& context, Gathered gathered, GuardedWork& work);

/// Collective if shapes may be added to those that were chosen `so_far`: the plan of a first pass with the
/// shapes that its micro-batches are padded to.
[[nodiscard]] Planned choose_shapes(const StepContext& context, Planned planned, const ChosenShapes& so_far,
                                    GuardedWork& work);
/// Local: the same for a later pass, with the shapes of the step, if it has any, else those so far.
[[nodiscard]] Planned with_shapes(Planned planned, const ChosenShapes& of_step, const ChosenShapes& so_far,
                                  GuardedWork& work);

/// Collective: chooses the strategy whose plan finishes first. Null if the settings already name one, or if
/// no plan can be made.
[[nodiscard]] std::optional<StrategyChoice> decide_strategy(const StepContext& context,
                                                            const StepProblem& problem, GuardedWork& work);

/// Collective: who gets which samples.
[[nodiscard]] StepAssignment assign(const StepContext& context, const StepProblem& problem,
                                    GuardedWork& work);

}  // namespace evenkeel
