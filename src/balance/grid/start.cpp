#include "balance/grid/start.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "balance/bins/capped_partition.hpp"
#include "balance/checks.hpp"
#include "balance/partition/item_order.hpp"
#include "balance/partition/lpt.hpp"
#include "cost/sum_limit.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"

namespace evenkeel {

namespace {

/// The cells of one column while they are filled up to a ceiling.
class ColumnFill {
 public:
  /// `smallest` is the size of the smallest remaining item. A cell without room for that item is full.
  ColumnFill(std::size_t rows, Cost ceiling, std::int64_t smallest, const ExchangeRules& rules)
      : ceiling_(ceiling), smallest_(smallest), rules_(rules), cells_(rows) {
    for (std::size_t cell = 0; cell < rows; ++cell) by_cost_.emplace(0, cell);
  }

  /// Adds an item to the cheapest cell with room, among the few cheapest cells. Returns whether one of
  /// these cells had room.
  bool add(const CostedItem& entry) {
    constexpr int max_tries = 16;
    int tries = 0;
    for (auto place = by_cost_.begin(); place != by_cost_.end() && tries < max_tries; ++place, ++tries) {
      const std::size_t cell = place->second;
      if (!has_room(cells_[cell], entry)) continue;
      by_cost_.erase(place);
      cells_[cell].insert_sorted(entry, rules_);
      if (!is_full(cells_[cell])) by_cost_.emplace(cells_[cell].cost, cell);
      return true;
    }
    return false;
  }

  [[nodiscard]] std::vector<ItemGroup> take_cells() { return std::move(cells_); }

 private:
  [[nodiscard]] bool has_room(const ItemGroup& cell, const CostedItem& entry) const {
    return entry.cost <= ceiling_ - cell.cost &&
           rules_.size_of(entry.item) <= rules_.limits.max_size - cell.size &&
           rules_.count_of(entry.item) <= rules_.limits.max_items - cell.count;
  }

  [[nodiscard]] bool is_full(const ItemGroup& cell) const {
    return cell.is_full(rules_) || smallest_ > rules_.limits.max_size - cell.size;
  }

  Cost ceiling_;
  std::int64_t smallest_;
  const ExchangeRules& rules_;
  std::vector<ItemGroup> cells_;
  std::set<std::pair<Cost, std::size_t>> by_cost_;  ///< (cost, index) of each cell that is not full
};

/// Maximum value of `generosity` in GridStart::ceiling(). With this value, the ceiling hardly limits a cell.
constexpr double max_generosity = 2;

}  // namespace

GridStart::GridStart(std::span<const Cost> costs, GridShape shape, const ExchangeRules& rules)
    : costs_(costs),
      rows_(static_cast<std::size_t>(shape.rows)),
      columns_(static_cast<std::size_t>(shape.columns)),
      rules_(rules) {
  std::optional<double> cheapest;
  const std::span<const std::int64_t> sizes = rules.items.sizes;
  for (std::size_t i = 0; i < std::min(costs.size(), sizes.size()); ++i) {
    if (sizes[i] == 0) continue;
    const double rate = static_cast<double>(costs[i]) / static_cast<double>(sizes[i]);
    cheapest = std::min(cheapest.value_or(rate), rate);
  }
  cheapest_ = cheapest.value_or(0);
}

CellGrid GridStart::make_balanced_grid() const {
  std::vector<Item> all(costs_.size());
  std::iota(all.begin(), all.end(), Item{0});
  const auto k = static_cast<std::int64_t>(rows_ * columns_);
  return {
      rows_,
      cells_of(partition_under_limits(costs_, rules_.items, rules_.limits, k, ExchangeMethod::by_sets), all)};
}

std::optional<CellGrid> GridStart::fill_expensive_columns_first() const {
  if (std::optional<PartialGrid> filled = fill_with_lowest_ceilings())
    return balance_remaining_items(*std::move(filled));
  return balance_remaining_items(fill_with_generosity(max_generosity));
}

std::optional<GridStart::PartialGrid> GridStart::fill_with_lowest_ceilings() const {
  std::optional<PartialGrid> least;
  double too_low = 0;
  double enough = max_generosity;
  const auto try_generosity = [&](double generosity) {
    PartialGrid filled = fill_with_generosity(generosity);
    if (!is_easily_balanced(filled)) {
      too_low = generosity;
      return;
    }
    enough = generosity;
    least = std::move(filled);
  };
  try_generosity(0);
  constexpr double fine_enough = 1.0 / 32;
  while (enough - too_low > fine_enough) try_generosity((too_low + enough) / 2);
  return least;
}

GridStart::PartialGrid GridStart::fill_with_generosity(double generosity) const {
  PartialGrid filled{{rows_, {}}, {}, rows_ * columns_};
  std::vector<CostedItem> left = descending_items(costs_);
  Cost sum = std::accumulate(costs_.begin(), costs_.end(), Cost{0});
  for (; !left.empty() && filled.cells_left > rows_; filled.cells_left -= rows_) {
    const Cost most = ceiling(left.front(), generosity);
    if (most <= sum / static_cast<Cost>(filled.cells_left)) break;
    for (ItemGroup& cell : fill_column(left, most)) {
      sum -= cell.cost;
      filled.grid.cells.push_back(std::move(cell));
    }
  }
  for (const CostedItem& entry : left) filled.left.push_back(entry.item);
  std::ranges::sort(filled.left);
  return filled;
}

Cost GridStart::ceiling(const CostedItem& costliest, double generosity) const {
  const auto room = static_cast<double>(rules_.limits.max_size - rules_.size_of(costliest.item));
  const double more = generosity * cheapest_ * room;
  const Cost most = sum_limit;
  return more < static_cast<double>(most - costliest.cost) ? costliest.cost + static_cast<Cost>(more) : most;
}

std::vector<ItemGroup> GridStart::fill_column(std::vector<CostedItem>& left, Cost most) const {
  std::int64_t smallest = rules_.limits.max_size;
  for (const CostedItem& entry : left) smallest = std::min(smallest, rules_.size_of(entry.item));
  ColumnFill column(rows_, most, smallest, rules_);
  std::erase_if(left, [&](const CostedItem& entry) { return column.add(entry); });
  return column.take_cells();
}

bool GridStart::is_easily_balanced(const PartialGrid& filled) const {
  const std::vector<Cost> costs = costs_of(filled.left);
  const PickedItems items(rules_.items, filled.left);
  const auto k = static_cast<std::int64_t>(filled.cells_left);
  const Partition assigned =
      k > max_differenced_groups ? longest_processing_time(costs, k) : karmarkar_karp(costs, k);
  return balance_checks::are_within(assigned, items.items(), rules_.limits);
}

std::optional<CellGrid> GridStart::balance_remaining_items(PartialGrid filled) const {
  if (filled.grid.cells.empty()) return std::nullopt;
  const PickedItems items(rules_.items, filled.left);
  const auto assigned =
      try_partition_under_limits(costs_of(filled.left), items.items(), rules_.limits,
                                 static_cast<std::int64_t>(filled.cells_left), ExchangeMethod::by_sets);
  if (!assigned) return std::nullopt;
  for (ItemGroup& cell : cells_of(*assigned, filled.left)) filled.grid.cells.push_back(std::move(cell));
  return std::move(filled.grid);
}

/// Converts groups of positions in `items` to groups of items.
std::vector<ItemGroup> GridStart::cells_of(const Partition& groups, std::span<const Item> items) const {
  std::vector<ItemGroup> cells;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    ItemGroup& cell = cells.emplace_back();
    for (const Item position : groups[g]) {
      const Item item = items[static_cast<std::size_t>(position)];
      cell.items.push_back({costs_[static_cast<std::size_t>(item)], item});
      cell.cost += cell.items.back().cost;
      cell.size += rules_.size_of(item);
      cell.count += rules_.count_of(item);
    }
    std::ranges::sort(cell.items);
  }
  return cells;
}

std::vector<Cost> GridStart::costs_of(std::span<const Item> items) const {
  std::vector<Cost> costs;
  for (const Item item : items) costs.push_back(costs_[static_cast<std::size_t>(item)]);
  return costs;
}

}  // namespace evenkeel
