#include "balance/grid/grid_partition.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "balance/grid/cells.hpp"
#include "balance/grid/start.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

CellGrid improved(CellGrid grid, const ExchangeRules& rules) {
  lower_peaks(grid, rules);
  even_out_rows(grid, rules);
  grid.sort_columns();
  return grid;
}

std::pair<Cost, Cost> figures_of(const CellGrid& grid) {
  return {grid.meeting_cost(), std::ranges::max(grid.row_costs())};
}

Partition row_after_row(CellGrid& grid) {
  std::vector<Item> items;
  std::vector<std::int64_t> offsets{0};
  for (std::size_t row = 0; row < grid.rows; ++row) {
    for (std::size_t j = 0; j < grid.columns(); ++j) {
      for (const CostedItem& entry : grid.at(row, j).items) items.push_back(entry.item);
      offsets.push_back(static_cast<std::int64_t>(items.size()));
    }
  }
  return Partition(std::move(items), std::move(offsets)).with_sorted_items();
}

}  // namespace

Partition partition_into_grid(std::span<const Cost> costs, BinItems items, BinLimits limits,
                              GridShape shape) {
  if (shape.rows < 1 || shape.columns < 1) {
    throw InputError("shape", std::to_string(shape.rows) + " rows and " + std::to_string(shape.columns) +
                                  " columns; at least one of each is needed");
  }
  const ExchangeRules rules{.items = items, .limits = limits};
  const GridStart start(costs, shape, rules);
  CellGrid best = improved(start.level(), rules);
  const Cost goal = balance_checks::ceil_div(best.total(), shape.rows);
  constexpr Cost one_in = 10'000;
  if (best.meeting_cost() - goal <= goal / one_in) return row_after_row(best);
  if (std::optional<CellGrid> other = start.dear_columns_first()) {
    CellGrid grid = improved(*std::move(other), rules);
    if (figures_of(grid) < figures_of(best)) best = std::move(grid);
  }
  return row_after_row(best);
}

}  // namespace evenkeel
