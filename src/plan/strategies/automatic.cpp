#include "plan/strategies/automatic.hpp"

#include <optional>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/pipeline/pipeline_schedule.hpp"
#include "plan/settings/requirements.hpp"

namespace evenkeel {
namespace {

PlanSettings to_grid_settings(PlanSettings settings) {
  settings.strategy = GridSettings{std::get<PackedSettings>(settings.strategy).count};
  return settings;
}

PlanSettings to_packed_settings(PlanSettings settings) {
  std::get<PackedSettings>(settings.strategy).allow_grid = false;
  return settings;
}

/// Returns whether a grid can replace the strategy of these settings: micro-batches are packed with the
/// default algorithm, equal_count and packing, and a grid is compatible with all other settings.
bool can_use_grid(const PlanSettings& settings) {
  const auto* packed = std::get_if<PackedSettings>(&settings.strategy);
  return packed != nullptr && packed->algorithm == BalanceAlgorithm::automatic && !packed->equal_count &&
         !packed->packing && are_compatible(choices_of(to_grid_settings(settings)));
}

/// A step planned with one strategy, and the time at which it ends.
struct PlannedStrategy {
  PlannedStrategy(const StepProblem& problem, const PlanSettings& settings) {
    planned = assign_and_plan({problem.table, settings, problem.step, problem.trees});
    const StepPlan& plan = planned.plan;
    const Cost overhead = settings.communication_cost().overhead;
    without_bubbles = planned_end(plan, settings, overhead);
    if (const auto step = simulated_step(plan, settings))
      simulated = step->end + overhead * plan.num_micro_batches();
  }

  AssignedPlan planned;
  Cost without_bubbles = 0;
  std::optional<Cost> simulated;
};

}  // namespace

bool is_strategy_open(const PlanSettings& settings) noexcept {
  const auto* packed = std::get_if<PackedSettings>(&settings.strategy);
  return packed != nullptr && packed->allow_grid && settings.balance.meet && can_use_grid(settings);
}

bool allows_grid(const PlanSettings& settings) noexcept {
  return !is_strategy_open(settings) && can_use_grid(settings);
}

PlanSettings with_choice(PlanSettings settings, const std::optional<StrategyChoice>& choice) {
  if (!choice) return settings;
  return choice->is_grid() ? to_grid_settings(std::move(settings)) : to_packed_settings(std::move(settings));
}

AssignedPlan plan_with_chosen_strategy(const StepProblem& problem) {
  EVENKEEL_PRECONDITION(cheap, is_strategy_open(problem.settings));
  PlannedStrategy hierarchical(problem, to_packed_settings(problem.settings));
  PlannedStrategy grid(problem, to_grid_settings(problem.settings));
  const bool simulated = hierarchical.simulated && grid.simulated;
  const auto end = [&](const PlannedStrategy& way) {
    return simulated ? *way.simulated : way.without_bubbles;
  };
  const StrategyChoice choice{end(hierarchical), end(grid)};
  AssignedPlan chosen = std::move(choice.is_grid() ? grid.planned : hierarchical.planned);
  chosen.choice = choice;
  return chosen;
}

StrategyChoice choose_strategy(const StepProblem& problem) {
  return *plan_with_chosen_strategy(problem).choice;
}

}  // namespace evenkeel
