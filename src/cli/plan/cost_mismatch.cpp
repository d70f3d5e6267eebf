#include "cli/plan/cost_mismatch.hpp"

#include "evenkeel/plan/step_plan.hpp"
#include "plan/pipeline/pipeline_schedule.hpp"

namespace evenkeel::cli {
namespace {

/// Returns the actual end time of a step that was planned with the `assumed` costs.
Cost step_end_with(const MachineCost& assumed, const MachineCost& actual, const LengthTable& table,
                   PlanSettings settings) {
  settings.balance.cost = assumed.model;
  settings.balance.overhead = assumed.overhead;
  StepPlan plan = plan_step({table, settings});
  for (DpRankPlan& rank : plan.ranks) {
    for (MicroBatchPlan& m : rank.micro_batches) {
      m.cost = 0;
      for (const EntryId entry : m.entries) m.cost += actual.model(table[entry].shape.length());
    }
  }
  return end_time_without_bubbles(plan, settings, actual.overhead);
}

}  // namespace

double cost_mismatch_slowdown(const MachineCost& assumed, const MachineCost& actual, const LengthTable& table,
                              const PlanSettings& settings) {
  const auto best = static_cast<double>(step_end_with(actual, actual, table, settings));
  if (best == 0) return 0;
  return static_cast<double>(step_end_with(assumed, actual, table, settings)) / best - 1;
}

}  // namespace evenkeel::cli
