#include "balance/context/waves/uniform.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "balance/bins/capped_partition.hpp"
#include "balance/checks.hpp"
#include "balance/context/task.hpp"
#include "balance/grid/grid_partition.hpp"

namespace evenkeel::context {
namespace {

/// What items cost and take on groups of one size.
struct UniformItems {
  UniformItems(std::span<const Item> items, const Levels& levels, int level) {
    for (const Item item : items) {
      costs.push_back(levels.work(item).work);
      sizes.push_back(levels.aligned(item, level));
      counts.push_back(levels.problem().count_of(item));
    }
  }
  std::vector<Cost> costs;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> counts;
};

}  // namespace

Waves uniform_waves_of(std::vector<Item> items, const Levels& levels, int level) {
  const UniformItems uniform(items, levels, level);
  const BinItems bins(uniform.sizes, uniform.counts);
  const BinLimits limits{levels.cap(level), levels.problem().limits.max_items};
  const std::int64_t rows = levels.blocks(level);
  const std::int64_t cells = count_groups(uniform.costs, bins, limits).needed;
  const GridShape shape{rows, std::max<std::int64_t>(1, balance_checks::ceil_div(cells, rows))};
  const Partition grid = partition_into_grid(uniform.costs, bins, limits, shape);
  Waves waves;
  std::vector<Cost> longest(static_cast<std::size_t>(shape.columns));
  for (std::int64_t cell = 0; cell < grid.size(); ++cell) {
    if (grid[cell].empty()) continue;
    OpenTask task;
    task.first = cell / shape.columns * levels.size(level);
    task.level = level;
    task.wave = cell % shape.columns;
    for (const Item at : grid[cell]) task.add(items[static_cast<std::size_t>(at)], levels);
    Cost& of_wave = longest[static_cast<std::size_t>(task.wave)];
    of_wave = std::max(of_wave, task.time);
    waves.tasks.push_back(std::move(task));
  }
  std::ranges::stable_sort(waves.tasks, {}, &OpenTask::wave);
  for (const Cost time : longest) waves.end += time;
  return waves;
}

std::optional<Waves> uniform_waves(const Levels& levels, int level) {
  std::vector<Item> items(static_cast<std::size_t>(levels.num_items()));
  std::iota(items.begin(), items.end(), Item{0});
  if (std::ranges::any_of(items, [&](Item item) { return !levels.fits(item, level); })) return std::nullopt;
  return uniform_waves_of(std::move(items), levels, level);
}

}  // namespace evenkeel::context
