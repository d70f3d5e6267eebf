#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "balance/grid/cells.hpp"
#include "balance/grid/grid_partition.hpp"

namespace evenkeel {

/// The items of a grid, and the ways to assign them that improvement starts from.
class GridStart {
 public:
  /// What is passed must outlive this object.
  GridStart(std::span<const Cost> costs, GridShape shape, const ExchangeRules& rules);

  /// All cells balanced alike.
  [[nodiscard]] CellGrid level() const;

  /// Columns are filled one after the other with the costliest items left, costliest first; once a column
  /// would be no costlier than the rest is on average, that is balanced. A column is filled up to a ceiling:
  /// as dear as its costliest item would make a cell that is filled up with the cheapest items, or with a
  /// fraction or a multiple of their cost. The lower ceilings are, the less rows wait, and the more is left
  /// for the other columns: the lowest ones are taken that leave no more than balancing brings under the
  /// limits. Where none do, columns are filled until nothing fits. Nothing when that leaves too much as well,
  /// or fills none.
  [[nodiscard]] std::optional<CellGrid> dear_columns_first() const;

 private:
  /// Some columns, and what is left for the others.
  struct Filled {
    CellGrid grid;
    std::vector<Item> left;  ///< ascending
    std::size_t cells_left = 0;
  };

  [[nodiscard]] Filled fill(double generosity) const;
  [[nodiscard]] std::optional<Filled> fill_least() const;
  [[nodiscard]] Cost ceiling(const CostedItem& costliest, double generosity) const;
  [[nodiscard]] std::vector<ItemGroup> fill_column(std::vector<CostedItem>& left, Cost most) const;
  [[nodiscard]] bool is_easily_balanced(const Filled& filled) const;
  [[nodiscard]] std::optional<CellGrid> balanced(Filled filled) const;
  [[nodiscard]] std::vector<ItemGroup> cells_of(const Partition& groups, std::span<const Item> items) const;
  [[nodiscard]] std::vector<Cost> costs_of(std::span<const Item> items) const;

  std::span<const Cost> costs_;
  std::size_t rows_;
  std::size_t columns_;
  const ExchangeRules& rules_;
  double cheapest_ = 0;  ///< the least cost a unit of size
};

}  // namespace evenkeel
