#include "plan/measured_cost.hpp"

#include <algorithm>

namespace evenkeel {
namespace {

Cost work_of(const LengthTable& table, const StepAssignment& assignment, const MicroBatchPlan& plan,
             const CostModel& model) {
  Cost work = 0;
  if (assignment.shared()) {
    for (const UnitId unit : plan.units) work += cost_of_tree(model, *assignment.units[unit].tree);
    return work;
  }
  for (const EntryId entry : plan.entries)
    work += model(plan.padded_length > 0 ? plan.padded_length : table[entry].shape.length());
  return work;
}

}  // namespace

CostObservation observe(const LengthTable& table, const StepAssignment& assignment,
                        const MicroBatchPlan& plan, const PlanSettings& settings, DpRank rank,
                        double seconds) {
  const BalanceSettings& balance = settings.balance;
  constexpr double nominal = 1000;
  const double speed = balance.speeds.empty() ? nominal : static_cast<double>(balance.speeds[rank.index()]);
  CostObservation observation;
  observation.tokens = work_of(table, assignment, plan, CostModel::tokens());
  observation.squares =
      static_cast<double>(work_of(table, assignment, plan, CostModel{0, 1, balance.cost.window}));
  observation.seconds = seconds * speed / nominal;
  observation.dp_rank = rank.value();
  return observation;
}

std::optional<Cost> CostInUse::overhead() const {
  if (!times) return std::nullopt;
  return overhead_cost_of(*times);
}

MeasuredCostModel::MeasuredCostModel(const CostModel& initial, std::int64_t window) : window_(window) {
  in_use_.model = initial;
}

void MeasuredCostModel::learn(std::span<const CostObservation> observations) {
  latest_.insert(latest_.end(), observations.begin(), observations.end());
  while (std::ssize(latest_) > window_) latest_.pop_front();
  const std::vector<CostObservation> all(latest_.begin(), latest_.end());
  in_use_.observations = std::ssize(all);
  const std::optional<TimeModel> times = fit_time_model(all);
  in_use_.kept = !times;
  if (times) use(*times);
}

void MeasuredCostModel::take_over(const TimeModel& times, std::int64_t observations) {
  in_use_.observations = observations;
  in_use_.kept = false;
  use(times);
}

void MeasuredCostModel::use(const TimeModel& times) {
  const std::int64_t reach = in_use_.model.window;
  in_use_.times = times;
  in_use_.model = cost_model_of(times);
  in_use_.model.window = reach;
}

}  // namespace evenkeel
