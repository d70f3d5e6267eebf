#include "balance/grid/grid_partition.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "balance/grid/cells.hpp"
#include "balance/grid/start.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

CellGrid improve_grid(CellGrid grid, const ExchangeRules& rules) {
  lower_peaks(grid, rules);
  even_out_rows(grid, rules);
  grid.sort_columns();
  return grid;
}

std::pair<Cost, Cost> synchronized_and_row_cost(const CellGrid& grid) {
  return {grid.synchronized_cost(), std::ranges::max(grid.row_costs())};
}

Partition concatenate_rows(CellGrid& grid) {
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

/// Returns the columns in descending order of the spread of their cells' costs, so that later columns can
/// compensate for earlier ones.
std::vector<std::size_t> columns_by_spread(const CellGrid& grid) {
  std::vector<std::size_t> columns(grid.columns());
  std::iota(columns.begin(), columns.end(), std::size_t{0});
  std::ranges::stable_sort(columns, std::ranges::greater{}, [&](std::size_t j) {
    const auto [cheapest, costliest] = std::ranges::minmax(grid.column(j), {}, &ItemGroup::cost);
    return costliest.cost - cheapest.cost;
  });
  return columns;
}

/// Assigns each column's cells to the rows, the costliest cell to the row with the lowest cost so far.
void assign_cells_to_rows(CellGrid& grid) {
  std::vector<std::pair<Cost, std::size_t>> rows;
  for (std::size_t row = 0; row < grid.rows; ++row) rows.emplace_back(0, row);
  for (const std::size_t j : columns_by_spread(grid)) {
    const auto first = grid.cells.begin() + static_cast<std::ptrdiff_t>(j * grid.rows);
    std::vector<ItemGroup> cells(std::make_move_iterator(first),
                                 std::make_move_iterator(first + static_cast<std::ptrdiff_t>(grid.rows)));
    std::ranges::stable_sort(cells, std::ranges::greater{}, &ItemGroup::cost);
    std::ranges::sort(rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].first += cells[i].cost;
      grid.at(rows[i].second, j) = std::move(cells[i]);
    }
  }
}

/// Exchanges items between the costliest row and cheaper rows.
class RowExchanges {
 public:
  RowExchanges(CellGrid& grid, const ExchangeRules& rules) : grid_(grid), rules_(rules) {
    for (std::size_t j = 0; j < grid.columns(); ++j) peaks_.push_back(grid.peak(j));
    const std::vector<Cost> sums = grid.row_costs();
    for (std::size_t row = 0; row < sums.size(); ++row) by_cost_.emplace(sums[row], row);
    for (const ItemGroup& cell : grid.cells) budget_ += 8 * static_cast<std::int64_t>(cell.items.size());
  }

  void run(Cost goal) {
    while (budget_ > 0 && !is_close(by_cost_.rbegin()->first, goal) && improve_costliest_row()) {
    }
  }

 private:
  bool improve_costliest_row() {
    constexpr int max_tries = 8;
    int tries = 0;
    const auto [dear, giver] = *by_cost_.rbegin();
    for (const auto& cheap_row : by_cost_) {
      const auto [cheap, receiver] = cheap_row;
      if (dear - cheap < 2 || tries++ == max_tries) return false;
      const Cost shifted = shift_cost(giver, receiver, dear - cheap);
      if (shifted == 0) continue;
      by_cost_.erase({dear, giver});
      by_cost_.erase({cheap, receiver});
      by_cost_.emplace(dear - shifted, giver);
      by_cost_.emplace(cheap + shifted, receiver);
      return true;
    }
    return false;
  }

  /// Shifts some cost, less than the gap between the rows' costs, from row `giver` to row `receiver`. Returns
  /// the shifted cost, or 0 if no exchange is found.
  Cost shift_cost(std::size_t giver, std::size_t receiver, Cost gap) {
    const std::optional<std::size_t> column = best_swap(giver, receiver, gap);
    const Cost by_swap = column ? difference(giver, receiver, *column) : 0;
    const bool is_good = by_swap >= gap / 4 && by_swap <= gap - gap / 4;
    if (!is_good) {
      const Cost by_items = exchange_items(giver, receiver, gap);
      if (by_items > 0) return by_items;
    }
    if (column) std::swap(grid_.at(giver, *column), grid_.at(receiver, *column));
    return by_swap;
  }

  [[nodiscard]] Cost difference(std::size_t giver, std::size_t receiver, std::size_t j) const {
    return grid_.at(giver, j).cost - grid_.at(receiver, j).cost;
  }

  /// Returns the column in which swapping the cells of the two rows makes the rows' costs most equal; nullopt
  /// if no swap helps.
  std::optional<std::size_t> best_swap(std::size_t giver, std::size_t receiver, Cost gap) {
    budget_ -= static_cast<std::int64_t>(grid_.columns());
    std::optional<std::size_t> best;
    Cost largest_gain = 0;
    for (std::size_t j = 0; j < grid_.columns(); ++j) {
      const Cost shift = difference(giver, receiver, j);
      const Cost gain = std::min(shift, gap - shift);
      if (gain <= largest_gain) continue;
      largest_gain = gain;
      best = j;
    }
    return best;
  }

  Cost exchange_items(std::size_t giver, std::size_t receiver, Cost gap) {
    for (std::size_t j = 0; j < grid_.columns(); ++j) {
      ItemGroup& from = grid_.at(giver, j);
      ItemGroup& into = grid_.at(receiver, j);
      const Cost most = std::min(gap - 1, peaks_[j] - into.cost);
      if (most < 1) continue;
      const Cost before = into.cost;
      const auto found = find_exchange(from, into, {std::min(gap, 2 * most), most}, rules_, budget_);
      if (!found) continue;
      found->apply(from, into, rules_);
      return into.cost - before;
    }
    return 0;
  }

  CellGrid& grid_;
  const ExchangeRules& rules_;
  std::int64_t budget_ = 1 << 20;                   ///< number of items that may still be examined
  std::vector<Cost> peaks_;                         ///< by column: cost of its costliest cell
  std::set<std::pair<Cost, std::size_t>> by_cost_;  ///< (total cost, index) of each row
};

}  // namespace

Partition partition_into_grid(std::span<const Cost> costs, BinItems items, BinLimits limits,
                              GridShape shape) {
  if (shape.rows < 1 || shape.columns < 1) {
    throw InputError("shape", "has " + format_plain_count(shape.rows, "row") + " and " +
                                  format_plain_count(shape.columns, "column") +
                                  "; it must have at least one of each");
  }
  const ExchangeRules rules{.items = items, .limits = limits};
  const GridStart start(costs, shape, rules);
  CellGrid best = improve_grid(start.make_balanced_grid(), rules);
  const Cost goal = balance_checks::ceil_div(best.total(), shape.rows);
  constexpr Cost one_in = 10'000;
  if (best.synchronized_cost() - goal <= goal / one_in) return concatenate_rows(best);
  if (std::optional<CellGrid> other = start.fill_expensive_columns_first()) {
    CellGrid grid = improve_grid(*std::move(other), rules);
    if (synchronized_and_row_cost(grid) < synchronized_and_row_cost(best)) best = std::move(grid);
  }
  return concatenate_rows(best);
}

void even_out_rows(CellGrid& grid, const ExchangeRules& rules) {
  assign_cells_to_rows(grid);
  RowExchanges(grid, rules).run(balance_checks::ceil_div(grid.total(), static_cast<std::int64_t>(grid.rows)));
}

}  // namespace evenkeel
