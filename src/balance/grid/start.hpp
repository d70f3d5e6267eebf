#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "balance/grid/cells.hpp"
#include "balance/grid/grid_partition.hpp"

namespace evenkeel {

/// Makes the starting grids, which are then improved by exchanges.
class GridStart {
 public:
  /// The arguments must outlive this object.
  GridStart(std::span<const Cost> costs, GridShape shape, const ExchangeRules& rules);

  /// Returns a grid in which all cells are balanced to nearly the same cost.
  [[nodiscard]] CellGrid make_balanced_grid() const;

  /// Returns a grid that is filled column by column with the costliest remaining items:
  /// 1. Fill each cell of the column up to a ceiling, which is the cost of the column's costliest item plus
  ///    up to twice the cost of filling up that item's cell with the cheapest items.
  /// 2. As soon as the next column would not be costlier than the average of the remaining columns, balance
  ///    the remaining items.
  ///
  /// With lower ceilings, rows wait less, but more items remain for the other columns. Uses the lowest
  /// ceilings for which the remaining items can be balanced under the limits, or the highest ceilings if
  /// there are no such ceilings. Returns nullopt if the remaining items cannot be balanced even then, or if
  /// no column was filled.
  [[nodiscard]] std::optional<CellGrid> fill_expensive_columns_first() const;

 private:
  /// The columns that were filled, and the remaining items.
  struct PartialGrid {
    CellGrid grid;
    std::vector<Item> left;  ///< items that are not in `grid`, in ascending order
    std::size_t cells_left = 0;
  };

  [[nodiscard]] PartialGrid fill_with_generosity(double generosity) const;
  [[nodiscard]] std::optional<PartialGrid> fill_with_lowest_ceilings() const;
  /// Returns the cost of the costliest item plus `generosity` times the cost of filling up its cell with the
  /// cheapest items.
  [[nodiscard]] Cost ceiling(const CostedItem& costliest, double generosity) const;
  [[nodiscard]] std::vector<ItemGroup> fill_column(std::vector<CostedItem>& left, Cost most) const;
  [[nodiscard]] bool is_easily_balanced(const PartialGrid& filled) const;
  [[nodiscard]] std::optional<CellGrid> balance_remaining_items(PartialGrid filled) const;
  [[nodiscard]] std::vector<ItemGroup> cells_of(const Partition& groups, std::span<const Item> items) const;
  [[nodiscard]] std::vector<Cost> costs_of(std::span<const Item> items) const;

  std::span<const Cost> costs_;
  std::size_t rows_;
  std::size_t columns_;
  const ExchangeRules& rules_;
  double cheapest_ = 0;  ///< minimum cost per unit of size over all items
};

}  // namespace evenkeel
