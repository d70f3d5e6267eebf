#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "balance/partition/item_exchange.hpp"

namespace evenkeel {

/// The cells of a grid, in column-major order.
struct CellGrid {
  std::size_t rows = 1;
  std::vector<ItemGroup> cells;  ///< rows * columns cells

  [[nodiscard]] std::size_t columns() const { return cells.size() / rows; }
  [[nodiscard]] ItemGroup& at(std::size_t row, std::size_t j) { return cells[j * rows + row]; }
  [[nodiscard]] std::span<const ItemGroup> column(std::size_t j) const {
    return std::span(cells).subspan(j * rows, rows);
  }

  [[nodiscard]] Cost total() const;
  /// Returns the cost of a column's costliest cell.
  [[nodiscard]] Cost peak(std::size_t j) const {
    return std::ranges::max(column(j), {}, &ItemGroup::cost).cost;
  }
  /// Returns the sum of the columns' peaks. This is the cost if rows synchronize after every column.
  [[nodiscard]] Cost synchronized_cost() const;
  /// Returns the total cost of each row.
  [[nodiscard]] std::vector<Cost> row_costs() const;

  /// Puts the costliest cells in column 0, the next costliest ones in column 1, and so on. For the given
  /// cells, this minimizes synchronized_cost().
  void sort_into_columns();
  /// Sorts whole columns by descending peak.
  void sort_columns();
};

/// Lowers synchronized_cost(): moves items from the costliest cell of a column to cells that remain below the
/// peak of their own column. Never increases synchronized_cost(). Examines O(items) exchanges.
void lower_peaks(CellGrid& grid, const ExchangeRules& rules);

/// Evens out the rows' total costs: assigns each column's cells to rows, then swaps cells within columns and
/// exchanges items between cells of a column. Does not raise any column's peak. Examines O(items)
/// exchanges.
void even_out_rows(CellGrid& grid, const ExchangeRules& rules);

/// Returns whether the value is within one part in a million of a bound, which is close enough to stop
/// improving the grid.
constexpr bool is_close(Cost value, Cost bound) {
  return value - bound <= bound / 1'000'000;
}

}  // namespace evenkeel
