#include "plan/settings/measured_cost.hpp"

#include <algorithm>

#include "cost/default_communication.hpp"
#include "evenkeel/base/assertions.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

Cost work_of(const LengthTable& table, const StepAssignment& assignment, const MicroBatchPlan& plan,
             const CostModel& model) {
  Cost work = 0;
  if (assignment.has_shared_prefixes()) {
    for (const UnitId unit : plan.units) work += cost_of_tree(model, *assignment.units[unit].tree);
    return work;
  }
  for (const EntryId entry : plan.entries)
    work += model(plan.padded_length > 0 ? plan.padded_length : table[entry].shape.length());
  return work;
}

}  // namespace

CostObservation make_observation(const LengthTable& table, const StepAssignment& assignment,
                                 const MicroBatchPlan& plan, const PlanSettings& settings, DpRank rank,
                                 double seconds) {
  const BalanceSettings& balance = settings.balance;
  constexpr double nominal = 1000;
  const auto speed = static_cast<double>(settings.speed_of(rank, plan.context));
  CostObservation observation;
  observation.tokens = work_of(table, assignment, plan, CostModel::tokens());
  observation.squares =
      static_cast<double>(work_of(table, assignment, plan, CostModel{0, 1, balance.cost.window}));
  observation.seconds = seconds * speed / nominal;
  if (strategy_of(settings).has_flexible_groups()) observation.ranks = plan.context.size;
  return observation;
}

void CostInUse::apply_to(BalanceSettings& balance) const {
  balance.cost = model;
  if (overhead) balance.overhead = overhead;
  if (!communication) return;
  balance.communication.inside_node = communication->inside_node.cost;
  balance.communication.between_nodes = communication->between_nodes.cost;
}

MeasuredCostModel::MeasuredCostModel(const CostModel& initial, std::int64_t window,
                                     std::optional<CommunicationSettings> groups)
    : initial_(initial), communication_(groups), window_(window) {
  EVENKEEL_PRECONDITION(cheap, !groups || groups->ranks_per_node);
  in_use_.model = initial;
}

void MeasuredCostModel::learn(std::span<const CostObservation> observations) {
  latest_.insert(latest_.end(), observations.begin(), observations.end());
  while (std::ssize(latest_) > window_) latest_.pop_front();
  const std::vector<CostObservation> all(latest_.begin(), latest_.end());
  in_use_.observations = std::ssize(all);
  const std::optional<TimeModel> times = fit_time_model(all, current_groups());
  in_use_.kept = !times;
  if (times) apply_fit(*times);
}

void MeasuredCostModel::restore_fit(const TimeModel& times, std::int64_t observations) {
  in_use_.observations = observations;
  in_use_.kept = false;
  apply_fit(times);
}

AssumedHop MeasuredCostModel::current_hop(std::optional<Cost> configured, Cost default_part,
                                          std::optional<double> measured) const {
  if (measured) return {.seconds = *measured};
  const auto ratio = [](Cost part, Cost whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  };
  if (!configured) return {.tokens = ratio(default_part, default_communication::token)};
  if (initial_.linear > 0) return {.tokens = ratio(*configured, initial_.linear)};
  return {.squares = ratio(*configured, std::max<Cost>(1, initial_.quadratic))};
}

FitGroups MeasuredCostModel::current_groups() const {
  if (!communication_) return {};
  const TimeModel before = in_use_.times.value_or(TimeModel{});
  constexpr double thousandths = 1000;
  return {
      *communication_->ranks_per_node, static_cast<double>(communication_->overlap) / thousandths,
      current_hop(communication_->inside_node, default_communication::inside_node, before.inside_node),
      current_hop(communication_->between_nodes, default_communication::between_nodes, before.between_nodes)};
}

void MeasuredCostModel::apply_fit(const TimeModel& times) {
  const FitGroups before = current_groups();
  const TokenUnits units = communication_ ? TokenUnits::fine : TokenUnits::one;
  const std::int64_t reach = in_use_.model.window;
  TimeModel all = times;
  if (in_use_.times && !all.inside_node) all.inside_node = in_use_.times->inside_node;
  if (in_use_.times && !all.between_nodes) all.between_nodes = in_use_.times->between_nodes;
  in_use_.times = all;
  in_use_.model = cost_model_of(times, units);
  in_use_.model.window = reach;
  in_use_.overhead = overhead_cost_of(times, units);
  if (!communication_) return;
  const auto hop_of = [&](std::optional<double> told, const AssumedHop& current) {
    const double seconds = told.value_or(current(times.linear, times.quadratic));
    return HopInUse{seconds, cost_of_seconds(seconds, times, units), !told};
  };
  in_use_.communication = {hop_of(times.inside_node, before.inside_node),
                           hop_of(times.between_nodes, before.between_nodes)};
}

}  // namespace evenkeel
