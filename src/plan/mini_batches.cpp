#include "plan/mini_batches.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "plan/dp_assignment.hpp"
#include "plan/picked_units.hpp"
#include "plan/seeded_order.hpp"
#include "plan/simple_partitions.hpp"

namespace evenkeel {
namespace {

using Runs = std::vector<std::vector<Item>>;

/// Things 0..n-1 in k runs, each ascending, of a drawn order when there is one.
Runs runs_of(std::int64_t n, std::span<const std::int64_t> drawn, std::int64_t k) {
  Runs runs = contiguous_runs(n, k).to_vectors();
  if (drawn.empty()) return runs;
  for (std::vector<Item>& run : runs) {
    for (Item& thing : run) thing = drawn[static_cast<std::size_t>(thing)];
    std::ranges::sort(run);
  }
  return runs;
}

Partition assign(const PackUnits& units, std::span<const Item> mini_batch, const PlanSettings& settings) {
  // A single mini-batch of the whole step need not be picked out of it.
  if (std::ssize(mini_batch) == units.size())
    return assign_to_dp_ranks({units.costs(), units.rows()}, settings);
  const std::vector<Cost> costs = picked(units.costs(), mini_batch);
  const std::vector<std::int64_t> rows = picked(units.rows(), mini_batch);
  Runs shares = assign_to_dp_ranks({costs, rows}, settings).to_vectors();
  for (std::vector<Item>& share : shares) {
    for (Item& item : share) item = mini_batch[static_cast<std::size_t>(item)];
  }
  return Partition(shares);
}

std::vector<Partition> balance_then_cut(const StepProblem& problem, const PackUnits& units) {
  const PlanSettings& settings = problem.settings;
  const Partition ranks = assign_to_dp_ranks({units.costs(), units.rows()}, settings);
  std::vector<Runs> mini_batches(static_cast<std::size_t>(settings.mini_batches.count));
  for (std::int64_t r = 0; r < ranks.size(); ++r) {
    const std::span<const Item> share = ranks[r];
    const std::vector<std::int64_t> drawn =
        seeded_order(std::ssize(share), settings.seed,
                     {static_cast<std::uint64_t>(problem.step), static_cast<std::uint64_t>(r)});
    Runs runs = runs_of(std::ssize(share), drawn, settings.mini_batches.count);
    for (std::size_t m = 0; m < runs.size(); ++m) {
      for (Item& unit : runs[m]) unit = share[static_cast<std::size_t>(unit)];
      std::ranges::sort(runs[m]);
      mini_batches[m].push_back(std::move(runs[m]));
    }
  }
  std::vector<Partition> shares;
  for (const Runs& of_ranks : mini_batches) shares.emplace_back(of_ranks);
  return shares;
}

}  // namespace

std::vector<std::vector<Item>> cut_into_mini_batches(const StepProblem& problem, const PackUnits& units) {
  const MiniBatchSettings& cut = problem.settings.mini_batches;
  std::vector<std::int64_t> drawn;
  if (cut.shuffle)
    drawn =
        seeded_order(units.num_groups(), problem.settings.seed, {static_cast<std::uint64_t>(problem.step)});
  Runs mini_batches = runs_of(units.num_groups(), drawn, cut.count);
  if (!units.shared()) return mini_batches;
  for (std::vector<Item>& mini_batch : mini_batches) {
    std::vector<Item> of_groups;
    for (const Item group : mini_batch) {
      for (Item unit = units.first_of_group(group); unit < units.first_of_group(group + 1); ++unit)
        of_groups.push_back(unit);
    }
    mini_batch = std::move(of_groups);
  }
  return mini_batches;
}

std::vector<Partition> split_into_mini_batches(const StepProblem& problem, const PackUnits& units) {
  if (!problem.settings.mini_batches.keep) return balance_then_cut(problem, units);
  std::vector<Partition> shares;
  for (const std::vector<Item>& mini_batch : cut_into_mini_batches(problem, units))
    shares.push_back(assign(units, mini_batch, problem.settings));
  return shares;
}

}  // namespace evenkeel
