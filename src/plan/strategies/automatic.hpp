#pragma once

#include <optional>

#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// The times at which a step ends with either strategy, in the units of its cost.
struct StrategyChoice {
  Cost hierarchical_end = 0;
  Cost grid_end = 0;

  /// Whether the grid is chosen, which must end earlier.
  [[nodiscard]] bool is_grid() const noexcept { return grid_end < hierarchical_end; }
};

/// Whether a step's plan decides its strategy: PackedSettings::or_grid is set, the trainer's way to meet is
/// known, and a grid goes with all other settings.
[[nodiscard]] bool is_strategy_open(const PlanSettings& settings) noexcept;

/// Whether balance.strategy: grid goes with the other settings of a step that is not planned as a grid and
/// not decided by its plan.
[[nodiscard]] bool could_be_grid(const PlanSettings& settings) noexcept;

/// Returns the settings with the strategy that `choice` names; unchanged if null.
[[nodiscard]] PlanSettings with_choice(PlanSettings settings, const std::optional<StrategyChoice>& choice);

/// Plans the step in both ways and compares when they end by balance.meet: simulated where there is a
/// pipeline (simulated_step), with the constant cost of every micro-batch. Precondition: is_strategy_open().
/// Throws as plan_step does. Pure, deterministic; takes as long as two plans.
[[nodiscard]] StrategyChoice choose_strategy(const StepProblem& problem);

struct AssignedPlan;

/// Chooses as choose_strategy does, and returns the plan of that strategy with the choice.
[[nodiscard]] AssignedPlan plan_in_chosen_way(const StepProblem& problem);

}  // namespace evenkeel
