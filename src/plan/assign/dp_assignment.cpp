#include "plan/assign/dp_assignment.hpp"

#include <utility>

#include "balance/partition/lpt.hpp"
#include "balance/partition/refine.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "plan/assign/simple_partitions.hpp"
#include "plan/settings/field_costs.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

/// By what an algorithm of that name makes of work alone.
template <typename Algorithm>
Partition balanced_by(Algorithm algorithm, std::span<const Cost> costs, const PlanSettings& settings) {
  const GroupSize group_size = settings.balance.equal_count ? GroupSize::equal : GroupSize::free;
  Partition partition = algorithm(costs, settings.dp, group_size);
  if (settings.balance.refine) partition = refine(costs, std::move(partition), group_size);
  return partition.with_sorted_items();
}

}  // namespace

std::vector<Cost> costs_of(const LengthTable& table, const PlanSettings& settings) {
  if (settings.balance.cost_field) {
    const std::span<const Cost> said = field_costs_of(table, *settings.balance.cost_field);
    return {said.begin(), said.end()};
  }
  std::vector<Cost> costs;
  costs.reserve(static_cast<std::size_t>(table.size()));
  for (const LengthEntry& entry : table.entries())
    costs.push_back(settings.balance.cost(entry.shape.length()));
  return costs;
}

Partition assign_to_dp_ranks(const AssignedWork& work, const PlanSettings& settings) {
  switch (settings.balance.algorithm) {
    case BalanceAlgorithm::automatic:
      return strategy_of(settings).assign_automatically(work, settings);
    case BalanceAlgorithm::karmarkar_karp:
      return balanced_by(karmarkar_karp, work.costs, settings);
    case BalanceAlgorithm::lpt:
      return balanced_by(longest_processing_time, work.costs, settings);
    case BalanceAlgorithm::sorted_stride:
      return sorted_stride(work.rows, settings.dp).with_sorted_items();
    case BalanceAlgorithm::none:
      break;
  }
  return contiguous_runs(std::ssize(work.costs), settings.dp);
}

std::vector<Cost> unbalanced_dp_costs(const LengthTable& table, const PlanSettings& settings) {
  return group_sums(contiguous_runs(table.size(), settings.dp), costs_of(table, settings));
}

}  // namespace evenkeel
