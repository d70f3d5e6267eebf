#include "evenkeel/plan/dp_assignment.hpp"

#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/balance/lpt.hpp"
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
  switch (balance.algorithm) {
    case BalanceAlgorithm::automatic:
    case BalanceAlgorithm::karmarkar_karp:
      return karmarkar_karp(costs_of(table, settings), settings.dp, group_size).with_sorted_items();
    case BalanceAlgorithm::lpt:
      return longest_processing_time(costs_of(table, settings), settings.dp, group_size).with_sorted_items();
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
