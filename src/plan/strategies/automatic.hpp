#pragma once

#include <optional>

#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// The end times of a step planned with the hierarchical strategy and with a grid, in the units of the cost.
struct StrategyChoice {
  Cost hierarchical_end = 0;
  Cost grid_end = 0;

  /// Returns whether the grid is chosen, which requires that it ends earlier.
  [[nodiscard]] bool is_grid() const noexcept { return grid_end < hierarchical_end; }
};

/// Returns whether the strategy is chosen by comparing plans. This is the case if PackedSettings::allow_grid
/// and BalanceSettings::meet are set, and a grid is compatible with all other settings.
[[nodiscard]] bool compares_strategies(const PlanSettings& settings) noexcept;

/// Returns whether a grid is not considered for these settings although balance.strategy: grid is compatible
/// with all other settings.
[[nodiscard]] bool skips_compatible_grid(const PlanSettings& settings) noexcept;

/// Returns the settings with the chosen strategy, or unchanged settings if `choice` is nullopt.
[[nodiscard]] PlanSettings apply_strategy_choice(PlanSettings settings,
                                                 const std::optional<StrategyChoice>& choice);

/// Plans the step with the hierarchical strategy and as a grid, and compares the end times of the two plans
/// under balance.meet, including the overhead of every micro-batch. With a pipeline, end times are simulated
/// if simulate_step() can simulate both plans. Precondition: compares_strategies(problem.settings). Throws
/// ConfigError, InputError and LimitError under the same conditions as plan_step(). Pure, deterministic;
/// takes as long as two plans.
[[nodiscard]] StrategyChoice choose_strategy(const StepProblem& problem);

struct AssignedPlan;

/// Does the same as choose_strategy(), but returns the chosen strategy's plan together with the choice.
[[nodiscard]] AssignedPlan plan_with_best_strategy(const StepProblem& problem);

}  // namespace evenkeel
