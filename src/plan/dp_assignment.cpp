#include "evenkeel/plan/dp_assignment.hpp"

#include "evenkeel/balance/balance_auto.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/balance/lpt.hpp"
#include "evenkeel/balance/refine.hpp"
#include "evenkeel/plan/dealing.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> lengths_of(const LengthTable& table) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(static_cast<std::size_t>(table.size()));
  for (const LengthEntry& entry : table.entries()) lengths.push_back(entry.shape.length());
  return lengths;
}

}  // namespace

std::vector<Cost> costs_of(const LengthTable& table, const PlanSettings& settings) {
  std::vector<Cost> costs;
  costs.reserve(static_cast<std::size_t>(table.size()));
  for (const LengthEntry& entry : table.entries())
    costs.push_back(settings.balance.cost(entry.shape.length()));
  return costs;
}

Partition assign_to_dp_ranks(const LengthTable& table, const PlanSettings& settings) {
  const BalanceSettings& balance = settings.balance;
  const GroupSize group_size = balance.equal_count ? GroupSize::equal : GroupSize::free;
  const auto balanced_by = [&](auto algorithm) {
    const std::vector<Cost> costs = costs_of(table, settings);
    Partition partition = algorithm(costs, settings.dp, group_size);
    if (balance.refine) partition = refine(costs, std::move(partition), group_size);
    return partition.with_sorted_items();
  };
  switch (balance.algorithm) {
    case BalanceAlgorithm::automatic:
      return balance_items(costs_of(table, settings), settings.dp, group_size, balance.refine)
          .with_sorted_items();
    case BalanceAlgorithm::karmarkar_karp:
      return balanced_by(karmarkar_karp);
    case BalanceAlgorithm::lpt:
      return balanced_by(longest_processing_time);
    case BalanceAlgorithm::sorted_stride:
      return sorted_stride(lengths_of(table), settings.dp).with_sorted_items();
    case BalanceAlgorithm::none:
      break;
  }
  return contiguous_runs(table.size(), settings.dp);
}

std::vector<Cost> unbalanced_dp_costs(const LengthTable& table, const PlanSettings& settings) {
  return group_sums(contiguous_runs(table.size(), settings.dp), costs_of(table, settings));
}

}  // namespace evenkeel
