#include "plan/strategies/strategy.hpp"

#include <utility>

#include "balance/partition/automatic.hpp"
#include "balance/partition/speed_partition.hpp"
#include "balance/partition/two_costs.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/placement/placement.hpp"
#include "plan/strategies/fixed_micro_batches.hpp"
#include "plan/strategies/flexible_groups.hpp"
#include "plan/strategies/grid_micro_batches.hpp"
#include "plan/strategies/packed_micro_batches.hpp"
#include "plan/strategies/padded_micro_batches.hpp"
#include "plan/strategies/preset_micro_batches.hpp"

namespace evenkeel {

void PlanningStrategy::require_samples_fit(const LengthTable& table, const PlanSettings& settings) const {
  require_within_cap(table, settings);
}

Partition PlanningStrategy::assign_automatically(const AssignedWork& work,
                                                 const PlanSettings& settings) const {
  const BalanceSettings& balance = settings.balance;
  const auto& own = *settings.find<AssignmentSettings>();
  if (balance.encoder)
    return partition_by_two_costs({work.costs, work.encoder_costs}, settings.dp).with_sorted_items();
  if (!balance.speeds.empty()) return partition_by_speed(work.costs, balance.speeds).with_sorted_items();
  const GroupSize group_size = own.equal_count ? GroupSize::equal : GroupSize::free;
  return balance_items(work.costs, settings.dp, group_size, own.refine).with_sorted_items();
}

namespace {

/// Visitor that returns the strategy for each alternative of StrategySettings. Strategies have no state, so
/// one object per class is enough.
struct StrategyFor {
  template <class Class>
  static const PlanningStrategy& one() noexcept {
    static const Class strategy;
    return strategy;
  }

  const PlanningStrategy& operator()(const PackedSettings&) { return one<PackedStrategy>(); }
  const PlanningStrategy& operator()(const PaddedSettings&) { return one<PaddedStrategy>(); }
  const PlanningStrategy& operator()(const FixedSettings&) { return one<FixedStrategy>(); }
  const PlanningStrategy& operator()(const GridSettings&) { return one<GridStrategy>(); }
  const PlanningStrategy& operator()(const ContextTreeSettings&) { return one<ContextTreeStrategy>(); }
  const PlanningStrategy& operator()(const ContextWavesSettings&) { return one<ContextWavesStrategy>(); }
  const PlanningStrategy& operator()(const ReferenceSettings& reference) {
    if (std::holds_alternative<PaddedSettings>(reference.micro_batches)) return one<PresetPaddedStrategy>();
    if (std::holds_alternative<FixedSettings>(reference.micro_batches)) return one<PresetFixedStrategy>();
    return one<PresetPackedStrategy>();
  }
};

}  // namespace

const PlanningStrategy& strategy_of(const PlanSettings& settings) noexcept {
  return std::visit(StrategyFor{}, settings.strategy);
}

void HierarchicalStrategy::assign(const StepProblem& problem, StepAssignment& assignment) const {
  for (IdGroups<UnitId>& units : split_into_mini_batches(problem, assignment.units))
    assignment.mini_batches.emplace_back().units = std::move(units);
  place(problem, assignment);
}

void HierarchicalStrategy::place(const StepProblem& problem, StepAssignment& assignment) const {
  place_shares(problem, assignment);
}

}  // namespace evenkeel
