#include "balance/grid/cells.hpp"

#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "balance/checks.hpp"

namespace evenkeel {

namespace {

/// Exchanges items between cells to lower the columns' peaks (CellGrid::peak()).
class PeakExchanges {
 public:
  PeakExchanges(CellGrid& grid, const ExchangeRules& rules, std::int64_t budget)
      : grid_(grid), rules_(rules), budget_(budget), by_cost_(grid.columns()) {
    for (std::size_t cell = 0; cell < grid.cells.size(); ++cell)
      by_cost_[cell / grid.rows].emplace(grid.cells[cell].cost, cell);
  }

  /// Improves columns in turn until no column improves, synchronized_cost() is close to `goal`, or the budget
  /// is used up. Returns whether any exchange was made.
  bool run(Cost goal) {
    Cost meeting = grid_.synchronized_cost();
    bool has_changed = false;
    for (std::size_t j = 0, stuck = 0; stuck < by_cost_.size() && !is_close(meeting, goal) && budget_ > 0;
         j = (j + 1) % by_cost_.size()) {
      const Cost before = peak(j);
      stuck = lower_peak(j) ? 0 : stuck + 1;
      has_changed = has_changed || stuck == 0;
      meeting -= before - peak(j);
    }
    return has_changed;
  }

  [[nodiscard]] std::int64_t budget() const { return budget_; }

 private:
  using ByCost = std::set<std::pair<Cost, std::size_t>>;

  [[nodiscard]] Cost peak(std::size_t j) const { return by_cost_[j].rbegin()->first; }

  /// Returns the columns in descending order of the difference between their costliest and cheapest cells.
  [[nodiscard]] std::vector<std::size_t> columns_by_room() const {
    std::vector<std::pair<Cost, std::size_t>> order;
    for (std::size_t j = 0; j < by_cost_.size(); ++j)
      order.emplace_back(by_cost_[j].begin()->first - peak(j), j);
    std::ranges::sort(order);
    std::vector<std::size_t> columns;
    for (const auto& entry : order) columns.push_back(entry.second);
    return columns;
  }

  /// Moves cost from the costliest cell of column j to a cell of any column that then remains below its
  /// column's peak. Returns whether such an exchange was found.
  bool lower_peak(std::size_t j) {
    const std::size_t giver = by_cost_[j].rbegin()->second;
    if (grid_.cells[giver].cost == 0) return false;
    for (const std::size_t to : columns_by_room()) {
      if (move_to_column(giver, to)) return true;
    }
    return false;
  }

  bool move_to_column(std::size_t giver, std::size_t to) {
    constexpr int max_tries = 8;
    const Cost below = peak(to);
    int tries = 0;
    for (const auto& [cost, receiver] : by_cost_[to]) {
      const Cost room = below - cost;
      if (room < 2 || tries++ == max_tries) return false;
      if (exchange(giver, receiver, room)) return true;
    }
    return false;
  }

  /// Makes an exchange between two cells. If the cells are in the same column, aims at equal costs.
  /// Otherwise, the receiver takes as much cost as it can without reaching its own column's peak, which is
  /// `room` above its cost. Returns whether an exchange was found.
  bool exchange(std::size_t giver, std::size_t receiver, Cost room) {
    ItemGroup& from = grid_.cells[giver];
    ItemGroup& into = grid_.cells[receiver];
    const bool is_same_column = giver / grid_.rows == receiver / grid_.rows;
    const WantedShift wanted{is_same_column ? room : 2 * (room - 1), room - 1};
    const std::optional<Exchange> found = find_exchange(from, into, wanted, rules_, budget_);
    if (!found) return false;
    by_cost_[giver / grid_.rows].erase({from.cost, giver});
    by_cost_[receiver / grid_.rows].erase({into.cost, receiver});
    found->apply(from, into, rules_);
    by_cost_[giver / grid_.rows].emplace(from.cost, giver);
    by_cost_[receiver / grid_.rows].emplace(into.cost, receiver);
    return true;
  }

  CellGrid& grid_;
  const ExchangeRules& rules_;
  std::int64_t budget_;
  std::vector<ByCost> by_cost_;  ///< by column: its cells, ordered by cost
};

}  // namespace

Cost CellGrid::total() const {
  return std::accumulate(cells.begin(), cells.end(), Cost{0},
                         [](Cost sum, const ItemGroup& cell) { return sum + cell.cost; });
}

Cost CellGrid::synchronized_cost() const {
  Cost sum = 0;
  for (std::size_t j = 0; j < columns(); ++j) sum += peak(j);
  return sum;
}

std::vector<Cost> CellGrid::row_costs() const {
  std::vector<Cost> sums(rows, 0);
  for (std::size_t cell = 0; cell < cells.size(); ++cell) sums[cell % rows] += cells[cell].cost;
  return sums;
}

void CellGrid::sort_into_columns() {
  std::ranges::stable_sort(cells, std::ranges::greater{}, &ItemGroup::cost);
}

void CellGrid::sort_columns() {
  std::vector<std::size_t> order(columns());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t j) { return peak(j); });
  std::vector<ItemGroup> sorted;
  sorted.reserve(cells.size());
  for (const std::size_t j : order) {
    for (std::size_t row = 0; row < rows; ++row) sorted.push_back(std::move(at(row, j)));
  }
  cells = std::move(sorted);
}

void lower_peaks(CellGrid& grid, const ExchangeRules& rules) {
  const Cost goal = balance_checks::ceil_div(grid.total(), static_cast<std::int64_t>(grid.rows));
  std::int64_t budget = 1 << 20;
  for (const ItemGroup& cell : grid.cells) budget += 8 * static_cast<std::int64_t>(cell.items.size());
  bool has_changed = true;
  while (has_changed && budget > 0) {
    grid.sort_into_columns();
    PeakExchanges exchanges(grid, rules, budget);
    has_changed = exchanges.run(goal);
    budget = exchanges.budget();
  }
  grid.sort_into_columns();
}

}  // namespace evenkeel
