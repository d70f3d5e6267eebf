#pragma once

#include <optional>

#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// The times at which a step ends under both strategies, in the units of its cost.
struct StrategyChoice {
  Cost hierarchical_end = 0;
  Cost grid_end = 0;

  /// Returns whether the grid is chosen. It is chosen only if it ends earlier.
  [[nodiscard]] bool is_grid() const noexcept { return grid_end < hierarchical_end; }
};

/// Returns whether the strategy is chosen by comparing plans. It is if PackedSettings::allow_grid is set, the
/// settings determine how often the trainer's ranks meet, and a grid is compatible with all other settings.
[[nodiscard]] bool is_strategy_open(const PlanSettings& settings) noexcept;

/// Returns whether balance.strategy: grid is compatible with the other settings of a step that is neither
/// planned as a grid nor chosen by comparing plans.
[[nodiscard]] bool allows_grid(const PlanSettings& settings) noexcept;

/// Returns the settings with the strategy that `choice` names; unchanged if null.
[[nodiscard]] PlanSettings with_choice(PlanSettings settings, const std::optional<StrategyChoice>& choice);

/// Plans the step with both strategies and compares the times at which they end under balance.meet, including
/// the constant cost of every micro-batch. With a pipeline, ends are simulated (simulated_step).
/// Precondition: is_strategy_open(). Throws the errors of plan_step(). Pure, deterministic; takes as long as
/// two plans.
[[nodiscard]] StrategyChoice choose_strategy(const StepProblem& problem);

struct AssignedPlan;

/// Chooses as choose_strategy() does, and returns the plan of the chosen strategy with the choice.
[[nodiscard]] AssignedPlan plan_with_chosen_strategy(const StepProblem& problem);

}  // namespace evenkeel
