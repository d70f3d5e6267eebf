#pragma once

#include <optional>

#include "evenkeel/plan/step_plan.hpp"
#include "mesh/fail_together.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/strategies/automatic.hpp"
#include "service/step/gathered.hpp"
#include "service/step/step_context.hpp"

namespace evenkeel {

/// Result of the second stage of every pass, which assigns samples to ranks and divides each rank's share
/// into micro-batches.
struct Planned {
  Gathered gathered;
  PlanSettings settings;                   // settings of the pass, with the final strategy
  std::optional<StrategyChoice> strategy;  // set if the strategy was chosen by comparing plans
  StepAssignment assignment;               // assignment of samples to ranks; replicated
  DpRankPlan plan;                         // plan of this rank's DP rank
  ChosenShapes shapes;                     // shapes of the step; each micro-batch of the plan has one of them

  [[nodiscard]] const Pass& pass() const noexcept { return gathered.pass; }
  [[nodiscard]] const StepSamples& samples() const noexcept { return *gathered.samples; }
};

/// Collective over all ranks: decides the strategy, assigns samples to ranks, and plans the micro-batches of
/// this rank's DP rank. Here and in the functions below, errors of this rank go to `work`.
[[nodiscard]] Planned plan_pass(const StepContext& context, Gathered gathered, GuardedWork& work);

/// Returns the plan of a first pass with the shapes that its micro-batches are padded to. Collective if
/// shapes may be added to `so_far`, the shapes of earlier steps.
[[nodiscard]] Planned choose_shapes(const StepContext& context, Planned planned, const ChosenShapes& so_far,
                                    GuardedWork& work);
/// Local: returns the plan of a later pass, with each micro-batch padded to the smallest fitting shape of the
/// step (`of_step`) or, if the step does not have shapes, of the shapes chosen `so_far`.
[[nodiscard]] Planned with_shapes(Planned planned, const ChosenShapes& of_step, const ChosenShapes& so_far,
                                  GuardedWork& work);

/// Collective: chooses the strategy whose plan ends first. Returns nullopt if the settings already name a
/// strategy, or if planning fails.
[[nodiscard]] std::optional<StrategyChoice> decide_strategy(const StepContext& context,
                                                            const StepProblem& problem, GuardedWork& work);

/// Collective: assigns samples to ranks.
[[nodiscard]] StepAssignment assign_samples(const StepContext& context, const StepProblem& problem,
                                            GuardedWork& work);

}  // namespace evenkeel
