#include "plan/strategies/automatic.hpp"

#include <optional>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/pipeline/pipeline_schedule.hpp"
#include "plan/settings/requirements.hpp"

namespace evenkeel {
namespace {

PlanSettings as_grid(PlanSettings settings) {
  settings.strategy = GridSettings{};
  return settings;
}

PlanSettings as_packed(PlanSettings settings) {
  std::get<PackedSettings>(settings.strategy).or_grid = false;
  return settings;
}

/// Whether nothing that is set for packed micro-batches would be lost in a grid.
bool goes_as_grid(const PlanSettings& settings) {
  const auto* packed = std::get_if<PackedSettings>(&settings.strategy);
  return packed != nullptr && packed->algorithm == BalanceAlgorithm::automatic && !packed->equal_count &&
         !packed->packing && packed->count == CountRule::fewest && go_together(choices_of(as_grid(settings)));
}

/// A step that is planned in one way, and when it ends.
struct PlannedWay {
  PlannedWay(const StepProblem& problem, const PlanSettings& settings) {
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
  const auto* packed = std::get_if<PackedSettings>(&settings.strategy);
  return packed != nullptr && packed->or_grid && settings.balance.meet && goes_as_grid(settings);
}

bool could_be_grid(const PlanSettings& settings) noexcept {
  return !is_strategy_open(settings) && goes_as_grid(settings);
}

PlanSettings with_choice(PlanSettings settings, const std::optional<StrategyChoice>& choice) {
  if (!choice) return settings;
  return choice->is_grid() ? as_grid(std::move(settings)) : as_packed(std::move(settings));
}

AssignedPlan plan_in_chosen_way(const StepProblem& problem) {
  EVENKEEL_PRECONDITION(cheap, is_strategy_open(problem.settings));
  PlannedWay hierarchical(problem, as_packed(problem.settings));
  PlannedWay grid(problem, as_grid(problem.settings));
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
