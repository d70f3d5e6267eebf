#include "evenkeel/balance/grid_partition.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "evenkeel/balance/capped_partition.hpp"
#include "evenkeel/base/error.hpp"
#include "grid_cells.hpp"

namespace evenkeel {

namespace {

/// Cells of one column while it is filled up to a ceiling.
class ColumnFill {
 public:
  /// `smallest` is the size of the smallest item that is still to come: a cell without room for it is full.
  ColumnFill(std::size_t rows, Cost ceiling, std::int64_t smallest, const ExchangeRules& rules)
      : ceiling_(ceiling), smallest_(smallest), rules_(rules), cells_(rows) {
    for (std::size_t cell = 0; cell < rows; ++cell) by_cost_.emplace(0, cell);
  }

  /// Into the cheapest cell with room, of the few cheapest.
  bool add(const CostedItem& entry) {
    constexpr int most_tries = 16;
    int tries = 0;
    for (auto place = by_cost_.begin(); place != by_cost_.end() && tries < most_tries; ++place, ++tries) {
      const std::size_t cell = place->second;
      if (!has_room(cells_[cell], entry)) continue;
      by_cost_.erase(place);
      cells_[cell].put(entry, rules_);
      if (!is_full(cells_[cell])) by_cost_.emplace(cells_[cell].cost, cell);
      return true;
    }
    return false;
  }

  [[nodiscard]] std::vector<ItemGroup> take_cells() { return std::move(cells_); }

 private:
  [[nodiscard]] bool has_room(const ItemGroup& cell, const CostedItem& entry) const {
    return entry.cost <= ceiling_ - cell.cost &&
           rules_.size_of(entry.item) <= rules_.limits.max_size - cell.size;
  }

  [[nodiscard]] bool is_full(const ItemGroup& cell) const {
    return static_cast<std::int64_t>(cell.items.size()) >= rules_.limits.max_items ||
           smallest_ > rules_.limits.max_size - cell.size;
  }

  Cost ceiling_;
  std::int64_t smallest_;
  const ExchangeRules& rules_;
  std::vector<ItemGroup> cells_;
  std::set<std::pair<Cost, std::size_t>> by_cost_;  ///< cells that may take another item
};

/// Up to where a column is filled.
enum class Ceiling : std::uint8_t {
  dearest_item,  ///< as dear as its dearest item, while that is dearer than an average cell
  limits,        ///< until nothing fits: where limits are tight, like items make cells of like cost
};

/// The items of a grid, and the ways to deal them that improvement starts from.
class GridStart {
 public:
  GridStart(std::span<const Cost> costs, GridShape shape, const ExchangeRules& rules)
      : costs_(costs),
        rows_(static_cast<std::size_t>(shape.rows)),
        columns_(static_cast<std::size_t>(shape.columns)),
        rules_(rules) {}

  /// All cells balanced alike.
  [[nodiscard]] CellGrid level() const {
    std::vector<Item> all(costs_.size());
    std::iota(all.begin(), all.end(), Item{0});
    const auto k = static_cast<std::int64_t>(rows_ * columns_);
    return {rows_, cells_of(partition_under_limits(costs_, rules_.sizes, rules_.limits, k), all)};
  }

  /// Columns are filled one after the other with the dearest items left, dearest first, until there is one
  /// column or nothing left; what is left is balanced. Nothing when no column is filled, or the others do not
  /// fit what is left.
  [[nodiscard]] std::optional<CellGrid> dear_columns_first(Ceiling ceiling) const {
    CellGrid grid{rows_, {}};
    std::vector<CostedItem> left = descending_items(costs_);
    Cost sum = std::accumulate(costs_.begin(), costs_.end(), Cost{0});
    std::size_t cells_left = rows_ * columns_;
    for (; !left.empty() && cells_left > rows_; cells_left -= rows_) {
      const bool is_level = left.front().cost <= sum / static_cast<Cost>(cells_left);
      if (ceiling == Ceiling::dearest_item && is_level) break;
      for (ItemGroup& cell : fill_column(left, ceiling)) {
        sum -= cell.cost;
        grid.cells.push_back(std::move(cell));
      }
    }
    if (grid.cells.empty() || !balance_into(grid, left, cells_left)) return std::nullopt;
    return grid;
  }

 private:
  /// Takes what fits from `left`.
  [[nodiscard]] std::vector<ItemGroup> fill_column(std::vector<CostedItem>& left, Ceiling ceiling) const {
    const Cost most = ceiling == Ceiling::dearest_item ? left.front().cost : balance_checks::sum_limit;
    std::int64_t smallest = rules_.limits.max_size;
    for (const CostedItem& entry : left) smallest = std::min(smallest, rules_.size_of(entry.item));
    ColumnFill column(rows_, most, smallest, rules_);
    std::erase_if(left, [&](const CostedItem& entry) { return column.add(entry); });
    return column.take_cells();
  }

  [[nodiscard]] bool balance_into(CellGrid& grid, const std::vector<CostedItem>& left, std::size_t k) const {
    std::vector<Item> items;
    for (const CostedItem& entry : left) items.push_back(entry.item);
    std::ranges::sort(items);
    std::vector<Cost> costs;
    std::vector<std::int64_t> sizes;
    for (const Item item : items) {
      costs.push_back(costs_[static_cast<std::size_t>(item)]);
      sizes.push_back(rules_.size_of(item));
    }
    const auto dealt = try_partition_under_limits(costs, sizes, rules_.limits, static_cast<std::int64_t>(k));
    if (!dealt) return false;
    for (ItemGroup& cell : cells_of(*dealt, items)) grid.cells.push_back(std::move(cell));
    return true;
  }

  /// Of groups of positions in `items`.
  [[nodiscard]] std::vector<ItemGroup> cells_of(const Partition& groups, std::span<const Item> items) const {
    std::vector<ItemGroup> cells;
    for (std::int64_t g = 0; g < groups.size(); ++g) {
      ItemGroup& cell = cells.emplace_back();
      for (const Item position : groups[g]) {
        const Item item = items[static_cast<std::size_t>(position)];
        cell.items.push_back({costs_[static_cast<std::size_t>(item)], item});
        cell.cost += cell.items.back().cost;
        cell.size += rules_.size_of(item);
      }
      std::ranges::sort(cell.items);
    }
    return cells;
  }

  std::span<const Cost> costs_;
  std::size_t rows_;
  std::size_t columns_;
  const ExchangeRules& rules_;
};

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

Partition partition_into_grid(std::span<const Cost> costs, std::span<const std::int64_t> sizes,
                              BinLimits limits, GridShape shape) {
  if (shape.rows < 1 || shape.columns < 1) {
    throw InputError("shape", std::to_string(shape.rows) + " rows and " + std::to_string(shape.columns) +
                                  " columns; at least one of each is needed");
  }
  const ExchangeRules rules{.sizes = sizes, .limits = limits};
  const GridStart start(costs, shape, rules);
  CellGrid best = improved(start.level(), rules);
  const Cost goal = balance_checks::ceil_div(best.total(), shape.rows);
  for (const Ceiling ceiling : {Ceiling::dearest_item, Ceiling::limits}) {
    constexpr Cost one_in = 10'000;
    if (best.meeting_cost() - goal <= goal / one_in) break;
    if (std::optional<CellGrid> other = start.dear_columns_first(ceiling)) {
      CellGrid grid = improved(std::move(*other), rules);
      if (figures_of(grid) < figures_of(best)) best = std::move(grid);
    }
  }
  return row_after_row(best);
}

}  // namespace evenkeel
