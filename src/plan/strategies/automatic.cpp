#include "plan/strategies/automatic.hpp"

#include <optional>

#include "evenkeel/base/assertions.hpp"
#include "plan/pipeline/simulated_step.hpp"
#include "plan/settings/requirements.hpp"

namespace evenkeel {
namespace {

PlanSettings with_strategy(PlanSettings settings, Strategy strategy) {
  settings.balance.strategy = strategy;
  return settings;
}

/// When a step ends that is planned in one way.
struct PlannedEnd {
  PlannedEnd(const StepProblem& problem, Strategy strategy) {
    const PlanSettings settings = with_strategy(problem.settings, strategy);
    const StepPlan plan = plan_step({problem.table, settings, problem.step, problem.trees});
    constant = settings.communication_cost().overhead * plan.num_micro_batches();
    without_bubbles = planned_end(plan, settings);
    if (const auto step = simulated_step(plan, settings)) simulated = step->end;
  }

  Cost constant = 0;  // of all its micro-batches
  Cost without_bubbles = 0;
  std::optional<Cost> simulated;
};

}  // namespace

bool is_strategy_open(const PlanSettings& settings) noexcept {
  return settings.balance.strategy == Strategy::automatic && settings.balance.meet && !settings.flexible &&
         go_together(choices_of(with_strategy(settings, Strategy::grid)));
}

StrategyChoice choose_strategy(const StepProblem& problem) {
  EVENKEEL_PRECONDITION(cheap, is_strategy_open(problem.settings));
  const PlannedEnd hierarchical(problem, Strategy::hierarchical);
  const PlannedEnd grid(problem, Strategy::grid);
  const bool simulated = hierarchical.simulated && grid.simulated;
  const auto end = [&](const PlannedEnd& way) {
    return way.constant + (simulated ? *way.simulated : way.without_bubbles);
  };
  StrategyChoice choice{Strategy::hierarchical, end(hierarchical), end(grid)};
  if (choice.grid_end < choice.hierarchical_end) choice.strategy = Strategy::grid;
  return choice;
}

}  // namespace evenkeel
