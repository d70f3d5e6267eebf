#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/partition/item_exchange.hpp"

namespace evenkeel {

/// Cells of a grid, column after column.
struct CellGrid {
  std::size_t rows = 1;
  std::vector<ItemGroup> cells;  ///< rows * columns

  [[nodiscard]] std::size_t columns() const { return cells.size() / rows; }
  [[nodiscard]] ItemGroup& at(std::size_t row, std::size_t j) { return cells[j * rows + row]; }
  [[nodiscard]] std::span<const ItemGroup> column(std::size_t j) const {
    return std::span(cells).subspan(j * rows, rows);
  }

  [[nodiscard]] Cost total() const;
  /// The costliest cell of a column.
  [[nodiscard]] Cost peak(std::size_t j) const {
    return std::ranges::max(column(j), {}, &ItemGroup::cost).cost;
  }
  /// The sum of the columns' peaks.
  [[nodiscard]] Cost meeting_cost() const;
  /// The sum of each row.
  [[nodiscard]] std::vector<Cost> row_costs() const;

  /// Puts the costliest cells into column 0 and so on: no other way to assign these cells meets at a lower
  /// cost.
  void sort_into_columns();
  /// Whole columns by falling peak.
  void sort_columns();
};

/// Lowers the meeting cost: the costliest cell of a column gives items to cells that stay below their
/// column's peak. It never rises. The work is bounded by a multiple of the number of items.
void lower_peaks(CellGrid& grid, const ExchangeRules& rules);

/// Evens out the rows' sums: assigns each column's cells anew, then swaps cells and exchanges items between
/// rows within a column. No column's peak rises. The work is bounded likewise.
void even_out_rows(CellGrid& grid, const ExchangeRules& rules);

/// Near enough to a bound to stop: within a part in a million.
constexpr bool is_close(Cost value, Cost bound) {
  return value - bound <= bound / 1'000'000;
}

}  // namespace evenkeel
