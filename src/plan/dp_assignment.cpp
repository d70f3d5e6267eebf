#include "evenkeel/plan/dp_assignment.hpp"

#include <algorithm>
#include <numeric>

#include "evenkeel/balance/balance_auto.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/balance/lpt.hpp"
#include "evenkeel/balance/refine.hpp"

namespace evenkeel {
namespace {

Partition contiguous_runs(std::int64_t items, std::int64_t groups) {
  std::vector<Item> all(static_cast<std::size_t>(items));
  std::iota(all.begin(), all.end(), Item{0});
  std::vector<std::int64_t> offsets;
  for (std::int64_t g = 0; g <= groups; ++g)
    offsets.push_back(g * (items / groups) + std::min(g, items % groups));
  return {std::move(all), std::move(offsets)};
}

Partition sorted_stride(const LengthTable& table, std::int64_t groups) {
  std::vector<Item> ascending(static_cast<std::size_t>(table.size()));
  std::iota(ascending.begin(), ascending.end(), Item{0});
  std::ranges::stable_sort(ascending, {}, [&](Item item) { return table[item].shape.length(); });
  std::vector<std::vector<Item>> shards(static_cast<std::size_t>(groups));
  for (std::size_t i = 0; i < ascending.size(); ++i) shards[i % shards.size()].push_back(ascending[i]);
  return Partition(shards);
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
      return sorted_stride(table, settings.dp).with_sorted_items();
    case BalanceAlgorithm::none:
      break;
  }
  return contiguous_runs(table.size(), settings.dp);
}

std::vector<Cost> unbalanced_dp_costs(const LengthTable& table, const PlanSettings& settings) {
  return group_sums(contiguous_runs(table.size(), settings.dp), costs_of(table, settings));
}

}  // namespace evenkeel
