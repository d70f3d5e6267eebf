#include "plan/assign/dp_assignment.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "balance/partition/item_exchange.hpp"
#include "balance/partition/lpt.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/assertions.hpp"
#include "plan/schedule/seeded_order.hpp"
#include "plan/settings/field_costs.hpp"
#include "plan/strategies/strategy.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {
namespace {

std::vector<Item> all_items(std::int64_t count) {
  std::vector<Item> items(static_cast<std::size_t>(count));
  std::iota(items.begin(), items.end(), Item{0});
  return items;
}

/// Balances on cost only, using the given algorithm and the settings for group sizes and refinement.
template <typename Algorithm>
Partition balance_with(Algorithm algorithm, std::span<const Cost> costs, const PlanSettings& settings) {
  const auto& own = *settings.find<AssignmentSettings>();
  const GroupSize group_size = own.equal_count ? GroupSize::equal : GroupSize::free;
  Partition partition = algorithm(costs, settings.dp, group_size);
  if (own.refine) partition = refine(costs, std::move(partition), group_size);
  return partition.with_sorted_items();
}

using Runs = std::vector<std::vector<Item>>;

/// Cuts a permutation of 0..n-1 into k runs of nearly equal size, and sorts each run. The permutation is
/// `drawn`, or ascending if `drawn` is empty.
Partition sorted_runs(std::int64_t n, std::span<const std::int64_t> drawn, std::int64_t k) {
  Partition in_order = contiguous_runs(n, k);
  if (drawn.empty()) return in_order;
  Runs runs = in_order.to_vectors();
  for (std::vector<Item>& run : runs) {
    for (Item& thing : run) thing = drawn[static_cast<std::size_t>(thing)];
    std::ranges::sort(run);
  }
  return Partition(runs);
}

AssignedWork work_of(const PackUnits& units) {
  return {units.costs(), units.rows(), units.encoder_costs(), units.items(), units.limits()};
}

IdGroups<UnitId> assign(const PackUnits& units, IdView<UnitId> mini_batch, const PlanSettings& settings) {
  // If the mini-batch is the whole step, use the lists of all units without copying them.
  if (std::ssize(mini_batch) == units.size())
    return IdGroups<UnitId>(assign_to_dp_ranks(work_of(units), settings));
  const PickedUnits own(units, mini_batch);
  const std::vector<std::int64_t> rows = pick(units.rows(), mini_batch);
  std::vector<Cost> encoder_costs;
  if (settings.balance.encoder) encoder_costs = pick(units.encoder_costs(), mini_batch);
  const AssignedWork work{own.costs, rows, encoder_costs, own.items(), units.limits()};
  const Partition ranks = assign_to_dp_ranks(work, settings);
  std::vector<std::vector<UnitId>> shares;
  for (std::int64_t r = 0; r < ranks.size(); ++r) shares.push_back(pick(mini_batch, ranks[r]));
  return IdGroups<UnitId>(shares);
}

std::vector<IdGroups<UnitId>> balance_then_cut(const StepProblem& problem, const PackUnits& units) {
  const PlanSettings& settings = problem.settings;
  AssignedWork work = work_of(units);
  if (settings.mini_batches.count > 1) work.items = {};  // no limits: shares are cut before they are packed
  const IdGroups<UnitId> ranks(assign_to_dp_ranks(work, settings));
  std::vector<std::vector<std::vector<UnitId>>> mini_batches(
      static_cast<std::size_t>(settings.mini_batches.count));
  for (std::int64_t r = 0; r < ranks.size(); ++r) {
    const IdView<UnitId> share = ranks[r];
    const std::vector<std::int64_t> drawn =
        seeded_order(std::ssize(share), settings.seed,
                     {static_cast<std::uint64_t>(problem.step), static_cast<std::uint64_t>(r)});
    const Partition runs = sorted_runs(std::ssize(share), drawn, settings.mini_batches.count);
    for (std::size_t m = 0; m < mini_batches.size(); ++m) {
      std::vector<UnitId>& run =
          mini_batches[m].emplace_back(pick(share, runs[static_cast<std::int64_t>(m)]));
      std::ranges::sort(run);
    }
  }
  std::vector<IdGroups<UnitId>> shares;
  for (const std::vector<std::vector<UnitId>>& of_ranks : mini_batches) shares.emplace_back(of_ranks);
  return shares;
}

}  // namespace

Partition contiguous_runs(std::int64_t items, std::int64_t k) {
  EVENKEEL_PRECONDITION(cheap, items >= 0 && k >= 1, items, k);
  std::vector<std::int64_t> offsets;
  for (std::int64_t g = 0; g <= k; ++g) offsets.push_back(g * (items / k) + std::min(g, items % k));
  return {all_items(items), std::move(offsets)};
}

Partition sorted_stride(std::span<const std::int64_t> lengths, std::int64_t k) {
  EVENKEEL_PRECONDITION(cheap, k >= 1, k);
  std::vector<Item> ascending = all_items(static_cast<std::int64_t>(lengths.size()));
  std::ranges::stable_sort(ascending, {}, [&](Item item) { return lengths[static_cast<std::size_t>(item)]; });
  std::vector<std::vector<Item>> groups(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < ascending.size(); ++i) groups[i % groups.size()].push_back(ascending[i]);
  return Partition(groups);
}

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
  switch (settings.find<AssignmentSettings>()->algorithm) {
    case BalanceAlgorithm::automatic:
      return strategy_of(settings).assign_automatically(work, settings);
    case BalanceAlgorithm::karmarkar_karp:
      return balance_with(karmarkar_karp, work.costs, settings);
    case BalanceAlgorithm::lpt:
      return balance_with(longest_processing_time, work.costs, settings);
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

IdGroups<UnitId> cut_into_mini_batches(const StepProblem& problem, const PackUnits& units) {
  const MiniBatchSettings& cut = problem.settings.mini_batches;
  std::vector<std::int64_t> drawn;
  if (cut.shuffle)
    drawn =
        seeded_order(units.num_groups(), problem.settings.seed, {static_cast<std::uint64_t>(problem.step)});
  Partition groups = sorted_runs(units.num_groups(), drawn, cut.count);
  if (!units.has_shared_prefixes())
    return IdGroups<UnitId>(std::move(groups));  // without sharing, group g is unit g
  std::vector<std::vector<UnitId>> mini_batches;
  for (std::int64_t m = 0; m < groups.size(); ++m) {
    std::vector<UnitId>& mini_batch = mini_batches.emplace_back();
    for (const Item group : groups[m])
      std::ranges::copy(units.units_of_group(group), std::back_inserter(mini_batch));
  }
  return IdGroups<UnitId>(mini_batches);
}

std::vector<IdGroups<UnitId>> assign_by_mini_batch(const StepProblem& problem, const PackUnits& units) {
  if (!problem.settings.mini_batches.keep) return balance_then_cut(problem, units);
  const IdGroups<UnitId> mini_batches = cut_into_mini_batches(problem, units);
  std::vector<IdGroups<UnitId>> shares;
  for (std::int64_t m = 0; m < mini_batches.size(); ++m)
    shares.push_back(assign(units, mini_batches[m], problem.settings));
  return shares;
}

}  // namespace evenkeel
