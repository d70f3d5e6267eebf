#include "plan/strategies/automatic.hpp"

#include <optional>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/pipeline/pipeline_schedule.hpp"
#include "plan/settings/requirements.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

PlanSettings with_strategy(PlanSettings settings, Strategy strategy) {
  settings.balance.strategy = strategy;
  return settings;
}

/// A step that is planned in one way, and when it ends.
struct PlannedWay {
  PlannedWay(const StepProblem& problem, Strategy strategy) {
    const PlanSettings settings = with_strategy(problem.settings, strategy);
    planned = assign_and_plan({problem.table, settings, problem.step, problem.trees});
    const StepPlan& plan = planned.plan;
    constant = settings.communication_cost().overhead * plan.num_micro_batches();
    without_bubbles = planned_end(plan, settings);
    if (const auto step = simulated_step(plan, settings)) simulated = step->end;
  }

  AssignedPlan planned;
  Cost constant = 0;  // of all its micro-batches
  Cost without_bubbles = 0;
  std::optional<Cost> simulated;
};

}  // namespace

bool is_strategy_open(const PlanSettings& settings) noexcept {
  return settings.balance.strategy == Strategy::automatic && settings.balance.meet && !settings.flexible &&
         go_together(choices_of(with_strategy(settings, Strategy::grid)));
}

bool could_be_grid(const PlanSettings& settings) noexcept {
  const PlanningStrategy& strategy = strategy_of(settings);
  return !strategy.ranks_meet() && !strategy.has_own_groups() && !is_strategy_open(settings) &&
         go_together(choices_of(with_strategy(settings, Strategy::grid)));
}

PlanSettings with_choice(PlanSettings settings, const std::optional<StrategyChoice>& choice) {
  if (!choice) return settings;
  return with_strategy(std::move(settings), choice->is_grid() ? Strategy::grid : Strategy::hierarchical);
}

AssignedPlan plan_in_chosen_way(const StepProblem& problem) {
  EVENKEEL_PRECONDITION(cheap, is_strategy_open(problem.settings));
  PlannedWay hierarchical(problem, Strategy::hierarchical);
  PlannedWay grid(problem, Strategy::grid);
  const bool simulated = hierarchical.simulated && grid.simulated;
  const auto end = [&](const PlannedWay& way) {
    return way.constant + (simulated ? *way.simulated : way.without_bubbles);
  };
  const StrategyChoice choice{end(hierarchical), end(grid)};
  AssignedPlan chosen = std::move(choice.is_grid() ? grid.planned : hierarchical.planned);
  chosen.choice = choice;
  return chosen;
}

StrategyChoice choose_strategy(const StepProblem& problem) {
  return *plan_in_chosen_way(problem).choice;
}

}  // namespace evenkeel
