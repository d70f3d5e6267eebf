#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "balance/grid/cells.hpp"
#include "balance/grid/grid_partition.hpp"

namespace evenkeel {

/// The items of a grid, and the assignments from which the improvement starts.
class GridStart {
 public:
  /// The arguments must outlive this object.
  GridStart(std::span<const Cost> costs, GridShape shape, const ExchangeRules& rules);

  /// Returns a grid in which all cells are balanced to the same cost.
  [[nodiscard]] CellGrid make_level_grid() const;

  /// Returns a grid that is filled column by column with the costliest remaining items:
  /// 1. Fill each cell of the column up to a ceiling: the cost of a cell that contains the column's costliest
  ///    item and is filled up with the cheapest items, or with a fraction or a multiple of their cost.
  /// 2. As soon as the next column would not be costlier than the average of the remaining columns, balance
  ///    the remaining items.
  ///
  /// With lower ceilings, rows wait less, but more items are left for the other columns. Uses the lowest
  /// ceilings for which the remaining items can be balanced under the limits. If there are no such ceilings,
  /// fills each column until no item fits. Returns nullopt if this still leaves too many items, or if no
  /// column was filled.
  [[nodiscard]] std::optional<CellGrid> fill_expensive_columns_first() const;

 private:
  /// The columns that were filled, and the items left for the other columns.
  struct Filled {
    CellGrid grid;
    std::vector<Item> left;  ///< ascending
    std::size_t cells_left = 0;
  };

  [[nodiscard]] Filled fill(double generosity) const;
  [[nodiscard]] std::optional<Filled> fill_with_lowest_ceilings() const;
  [[nodiscard]] Cost ceiling(const CostedItem& costliest, double generosity) const;
  [[nodiscard]] std::vector<ItemGroup> fill_column(std::vector<CostedItem>& left, Cost most) const;
  [[nodiscard]] bool is_easily_balanced(const Filled& filled) const;
  [[nodiscard]] std::optional<CellGrid> balance_rest(Filled filled) const;
  [[nodiscard]] std::vector<ItemGroup> cells_of(const Partition& groups, std::span<const Item> items) const;
  [[nodiscard]] std::vector<Cost> costs_of(std::span<const Item> items) const;

  std::span<const Cost> costs_;
  std::size_t rows_;
  std::size_t columns_;
  const ExchangeRules& rules_;
  double cheapest_ = 0;  ///< minimum cost per unit of size
};

}  // namespace evenkeel
