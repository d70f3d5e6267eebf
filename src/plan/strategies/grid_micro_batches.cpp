#include "plan/strategies/grid_micro_batches.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "balance/grid/grid_partition.hpp"
#include "balance/quality.hpp"
#include "base/list_checks.hpp"
#include "evenkeel/base/assertions.hpp"
#include "pack/prefix/tree_split.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/placement/placement.hpp"
#include "plan/settings/field_costs.hpp"
#include "plan/strategies/micro_batcher.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t max_examined_cells =
    std::int64_t{1} << 24;              // maximum number of candidate cells examined per mini-batch
constexpr Cost min_gain_divisor = 512;  // a move must reduce a column's cost by more than 1/512

/// The totals of a Run.
struct RunFigures {
  Cost cost = 0;
  std::int64_t rows = 0;  ///< number of rows after alignment
  std::int64_t samples = 0;
};

/// Consecutive samples of a unit, in depth-first order.
struct Run {
  UnitId unit{0};
  RowRange samples;  ///< positions of the samples in the depth-first order of the unit's tree
  RunFigures figures;
};

/// A run cut in two: one part moves to another cell (micro-batch) of the grid, and the other stays. If the
/// whole run moves, no part stays.
struct Cut {
  Run moving_part;
  std::optional<Run> remaining_part;
};

/// The samples of a unit in depth-first order, and their costs.
class OrderedUnit {
 public:
  /// Uses the given costs of entries. If `costs_of_entries` is empty, computes costs from lengths with the
  /// cost model.
  OrderedUnit(const PackUnit& unit, const PlanSettings& settings, std::span<const Cost> costs_of_entries)
      : samples_(ordered_samples(*unit.tree)), alignment_(settings.alignment()) {
    const std::vector<std::int64_t> order = unit.tree->depth_first_samples();
    for (std::size_t i = 0; i < order.size(); ++i) {
      const CostModel& model = settings.balance.cost;
      const bool by_rows = costs_of_entries.empty();
      const Cost alone = by_rows ? model(samples_.lengths[i])
                                 : costs_of_entries[unit.entries[static_cast<std::size_t>(order[i])].index()];
      alone_.push_back(alone);
      sums_.push_back(sums_.back() + alone - (by_rows ? model(samples_.shared[i]) : 0));
    }
  }

  /// Returns all cuts of a run into two parts, either of which may move, and the move of the whole run.
  [[nodiscard]] std::vector<Cut> cuts_of(const Run& run) const {
    std::vector<Cut> cuts{{run, std::nullopt}};
    const auto [front, back] = front_and_back_rows(run.samples);
    for (std::int64_t at = run.samples.begin + 1; at < run.samples.end; ++at) {
      const auto i = static_cast<std::size_t>(at - run.samples.begin);
      const Run first = make_run(run.unit, {run.samples.begin, at}, front[i]);
      const Run last = make_run(run.unit, {at, run.samples.end}, back[i]);
      cuts.push_back({first, last});
      cuts.push_back({last, first});
    }
    return cuts;
  }

 private:
  [[nodiscard]] Run make_run(UnitId unit, RowRange samples, std::int64_t rows) const {
    const auto begin = static_cast<std::size_t>(samples.begin);
    const Cost cost = alone_[begin] + sums_[static_cast<std::size_t>(samples.end)] - sums_[begin + 1];
    return {unit, samples, {cost, rows, samples.size()}};
  }

  /// Returns two lists: for each i, the aligned rows of the first i samples of a run, and those of the
  /// remaining samples. Adds alignment - 1 rows for a part with a single sample, since its prompt and
  /// response may remain separate segments.
  [[nodiscard]] std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> front_and_back_rows(
      RowRange samples) const {
    OrderedSamples own{{samples_.lengths.begin() + samples.begin, samples_.lengths.begin() + samples.end},
                       {samples_.shared.begin() + samples.begin, samples_.shared.begin() + samples.end}};
    own.shared.front() = 0;
    RunRows rows(own, alignment_);
    const std::int64_t of_one = alignment_ - 1;
    std::vector<std::int64_t> back(own.lengths.size());
    while (rows.begin() > 0) {
      rows.grow();
      back[static_cast<std::size_t>(rows.begin())] = rows.rows();
    }
    std::vector<std::int64_t> front(own.lengths.size());
    while (rows.end() > 1) {
      rows.shrink();
      front[static_cast<std::size_t>(rows.end())] = rows.rows();
    }
    back.back() += of_one;
    if (front.size() > 1) front[1] += of_one;
    return {std::move(front), std::move(back)};
  }

  OrderedSamples samples_;
  std::int64_t alignment_;
  std::vector<Cost> alone_;    // cost of each sample by itself
  std::vector<Cost> sums_{0};  // prefix sums of the cost that each sample adds to its predecessors
};

struct Cell {
  RunFigures figures;
  std::vector<Run> runs;

  void add(const Run& run) {
    figures.cost += run.figures.cost;
    figures.rows += run.figures.rows;
    figures.samples += run.figures.samples;
    runs.push_back(run);
  }
  void remove(std::size_t index) {
    const Run& run = runs[index];
    figures.cost -= run.figures.cost;
    figures.rows -= run.figures.rows;
    figures.samples -= run.figures.samples;
    runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(index));
  }
};

/// A move of a run, or of a part of it, from the costliest cell of a column to another cell.
struct Move {
  std::size_t run = 0;
  Cut cut;
  std::size_t to = 0;
  Cost gain = 0;
};

/// A grid whose columns are being leveled (see level_grids()).
class Leveling {
 public:
  Leveling(const PlannedGrid& grid, const PackUnits& units, const PlanSettings& settings,
           std::span<const Cost> costs_of_entries)
      : units_(units),
        settings_(settings),
        costs_of_entries_(costs_of_entries),
        columns_(static_cast<std::size_t>(grid.shape.columns)) {
    for (const std::vector<UnitId>& cell : grid.cells) {
      Cell& own = cells_.emplace_back();
      for (const UnitId unit : cell) {
        const PackUnit whole = units[unit];
        const std::int64_t samples = std::ssize(whole.entries);
        own.add({unit, {0, samples}, {whole.cost, whole.aligned_rows, samples}});
      }
    }
  }

  void level() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t j = 0; j < columns_; ++j)
        while (try_move_from(j)) moved = true;
    }
  }

  [[nodiscard]] const std::vector<Cell>& cells() const noexcept { return cells_; }

 private:
  [[nodiscard]] std::size_t costliest_cell(std::size_t column) const {
    std::size_t most = column;
    for (std::size_t c = column; c < cells_.size(); c += columns_)
      if (cells_[c].figures.cost > cells_[most].figures.cost) most = c;
    return most;
  }

  /// Returns the cost of the costliest other cell in the cell's column.
  [[nodiscard]] Cost highest_other_cost(std::size_t cell) const {
    Cost highest = 0;
    for (std::size_t c = cell % columns_; c < cells_.size(); c += columns_)
      if (c != cell) highest = std::max(highest, cells_[c].figures.cost);
    return highest;
  }

  [[nodiscard]] bool fits(const Cell& cell, const RunFigures& more) const {
    return cell.figures.rows + more.rows <= units_.limits().max_size &&
           cell.figures.samples + more.samples <= units_.limits().max_items;
  }

  /// Returns whether moving samples out of `top`, the costliest cell of its column, could reduce
  /// the cost of the column by more than 1 / min_gain_divisor.
  [[nodiscard]] bool is_uneven(std::size_t top) const {
    Cost sum = 0;
    for (std::size_t c = top % columns_; c < cells_.size(); c += columns_) sum += cells_[c].figures.cost;
    const Cost most = cells_[top].figures.cost;
    const Cost mean = sum / static_cast<Cost>(cells_.size() / columns_);
    return most - mean > most / min_gain_divisor;
  }

  /// Makes the best move from a column's costliest cell if its gain is large enough. Returns whether it made
  /// a move.
  bool try_move_from(std::size_t column) {
    const std::size_t top = costliest_cell(column);
    if (!is_uneven(top)) return false;
    highest_.clear();
    for (std::size_t j = 0; j < columns_; ++j) highest_.push_back(cells_[costliest_cell(j)].figures.cost);
    highest_other_ = highest_other_cost(top);
    Move best;
    for (std::size_t r = 0; r < cells_[top].runs.size(); ++r) {
      const Run& run = cells_[top].runs[r];
      for (const Cut& cut : ordered_unit(run.unit).cuts_of(run)) update_best_move(top, r, cut, best);
      if (examined_cells_ > max_examined_cells) return false;
    }
    if (best.gain <= highest_[column] / min_gain_divisor) return false;
    cells_[top].remove(best.run);
    if (best.cut.remaining_part) cells_[top].add(*best.cut.remaining_part);
    cells_[best.to].add(best.cut.moving_part);
    return true;
  }

  /// Finds the best target cell for the part of the cut that moves. Replaces `best` if the move to that cell
  /// gains more.
  void update_best_move(std::size_t top, std::size_t run, const Cut& cut, Move& best) {
    const RunFigures& whole = cells_[top].runs[run].figures;
    const RunFigures remaining_part = cut.remaining_part ? cut.remaining_part->figures : RunFigures{};
    if (cells_[top].figures.rows + remaining_part.rows - whole.rows > units_.limits().max_size) return;
    const Cost left = std::max(cells_[top].figures.cost + remaining_part.cost - whole.cost, highest_other_);
    const std::size_t column = top % columns_;
    examined_cells_ += std::ssize(cells_);
    for (std::size_t c = 0; c < cells_.size(); ++c) {
      if (c == top || !fits(cells_[c], cut.moving_part.figures)) continue;
      const Cost there = cells_[c].figures.cost + cut.moving_part.figures.cost;
      const std::size_t j = c % columns_;
      const Cost gain = j == column ? highest_[j] - std::max(left, there)
                                    : highest_[column] - left - std::max(Cost{0}, there - highest_[j]);
      if (gain > best.gain) best = {run, cut, c, gain};
    }
  }

  const OrderedUnit& ordered_unit(UnitId unit) {
    const auto found = ordered_.find(unit.value());
    if (found != ordered_.end()) return found->second;
    return ordered_.try_emplace(unit.value(), units_[unit], settings_, costs_of_entries_).first->second;
  }

  const PackUnits& units_;
  const PlanSettings& settings_;
  std::span<const Cost> costs_of_entries_;
  std::size_t columns_;
  std::vector<Cell> cells_;
  std::vector<Cost> highest_;  // cost of each column's costliest cell
  Cost highest_other_ =
      0;  // cost of the costliest other cell in the column of the cell from which samples move
  std::map<std::int64_t, OrderedUnit> ordered_;
  std::int64_t examined_cells_ = 0;
};

/// Returns the runs of all grids as pieces. Each cell is a micro-batch; cells are numbered consecutively over
/// the grids.
std::vector<UnitPiece> pieces_of(std::span<const Leveling> grids) {
  std::vector<UnitPiece> pieces;
  std::size_t number = 0;
  for (const Leveling& grid : grids) {
    for (const Cell& cell : grid.cells()) {
      for (const Run& run : cell.runs) pieces.push_back({run.unit, run.samples, number});
      ++number;
    }
  }
  std::ranges::sort(pieces, {},
                    [](const UnitPiece& piece) { return std::pair(piece.unit, piece.samples.begin); });
  return pieces;
}

void require_within_limits(const PackUnits& units, const PlannedGrid& grid) {
  for (const std::vector<UnitId>& cell : grid.cells) {
    std::int64_t rows = 0;
    for (const UnitId unit : cell) rows += units[unit].aligned_rows;
    EVENKEEL_INVARIANT(cheap, rows <= units.limits().max_size, rows, units.limits().max_size);
  }
}

/// Returns the execution order of the columns: order_micro_batches() applied to one placeholder micro-batch
/// per column, with the cost of the column's costliest cell.
std::vector<std::int64_t> column_order(const PackUnits& units, const PlannedGrid& grid,
                                       const PlanSettings& settings) {
  const auto [rows, columns] = grid.shape;
  std::vector<MicroBatchPlan> stand_ins;
  for (std::int64_t j = 0; j < columns; ++j) {
    MicroBatchPlan& stand_in = stand_ins.emplace_back();
    for (std::int64_t row = 0; row < rows; ++row)
      stand_in.cost = std::max(stand_in.cost, figures_of(units, grid.at(row, j)).cost);
    stand_in.entries = {EntryId{columns - 1 - j}};  // on ties, the first column wins
  }
  order_micro_batches(stand_ins, settings, 1);
  std::vector<std::int64_t> order;
  for (const MicroBatchPlan& stand_in : stand_ins)
    order.push_back(columns - 1 - stand_in.entries.front().value());
  return order;
}

/// Returns the time that a grid takes if ranks synchronize at every column.
Cost time_of_columns(std::span<const Cost> costs, const Partition& cells, GridShape shape,
                     GroupTiming timing) {
  const std::vector<Cost> sums = group_sums(cells, costs);
  std::vector<std::vector<Cost>> rows;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto first = sums.begin() + static_cast<std::ptrdiff_t>(row * shape.columns);
    rows.emplace_back(first, first + static_cast<std::ptrdiff_t>(shape.columns));
  }
  return estimated_time(rows, timing);
}

PlannedGrid plan_grid(const PlanSettings& settings, const PackUnits& units, IdView<UnitId> mini_batch) {
  EVENKEEL_PRECONDITION(thorough, is_strictly_ascending(mini_batch), mini_batch.size());
  const PickedUnits own(units, mini_batch);
  const GroupCount cells = count_micro_batches(units, mini_batch);
  const auto per_rank = [&](std::int64_t n) { return n / settings.dp + (n % settings.dp != 0 ? 1 : 0); };
  PlannedGrid grid;
  grid.count = {per_rank(cells.lower_bound), per_rank(cells.needed)};
  grid.shape = {settings.dp, agreed_count(grid.count.needed, settings)};
  const auto partition = [&] {
    return partition_into_grid(own.costs, own.items(), units.limits(), grid.shape);
  };
  Partition cells_of_units = partition();
  if (settings.find<GridSettings>()->count == CountRule::fastest) {
    const GroupTiming timing{settings.communication_cost().overhead, settings.pp};
    const Cost even = std::accumulate(own.costs.begin(), own.costs.end(), Cost{0}) / settings.dp;
    GridShape best = grid.shape;
    Cost earliest = time_of_columns(own.costs, cells_of_units, best, timing);
    for (int more = 0; more < 7; ++more) {
      grid.shape.columns += settings.count_multiple();
      if (even + timing.overhead * grid.shape.columns >= earliest) break;
      Partition other = partition();
      const Cost end = time_of_columns(own.costs, other, grid.shape, timing);
      if (end >= earliest) continue;
      earliest = end;
      best = grid.shape;
      cells_of_units = std::move(other);
      grid.count.needed = grid.shape.columns;
    }
    grid.shape = best;
  }
  for (std::int64_t c = 0; c < cells_of_units.size(); ++c)
    grid.cells.push_back(pick(mini_batch, cells_of_units[c]));
  return grid;
}

MiniBatchAssignment assign_grid(const PlanSettings& settings, const PackUnits& units,
                                const PlannedGrid& grid) {
  MiniBatchAssignment assigned;
  assigned.joint = JointMicroBatches(settings.dp);
  assigned.joint.count = grid.count;
  const std::vector<std::int64_t> columns = column_order(units, grid, settings);
  std::vector<std::vector<UnitId>> shares;
  for (std::int64_t rank = 0; rank < grid.shape.rows; ++rank) {
    std::vector<UnitId>& share = shares.emplace_back();
    for (const std::int64_t j : columns) {
      const std::vector<UnitId>& cell = grid.at(rank, j);
      share.insert(share.end(), cell.begin(), cell.end());
      assigned.joint.append_to_rank(DpRank{static_cast<int>(rank)},
                                    assigned.joint.add(cell, figures_of(units, cell)));
    }
  }
  assigned.units = IdGroups<UnitId>(IdGroups<UnitId>(shares).items().with_sorted_items());
  return assigned;
}

}  // namespace

void level_grids(const StepProblem& problem, PackUnits& units, std::span<PlannedGrid> grids) {
  EVENKEEL_PRECONDITION(cheap, units.has_shared_prefixes());
  if (!units.capped_rows().empty()) return;
  const std::optional<std::string>& field = problem.settings.balance.cost_field;
  const std::span<const Cost> costs_of_entries =
      field ? field_costs_of(problem.table, *field) : std::span<const Cost>{};
  std::vector<Leveling> leveled;
  leveled.reserve(grids.size());
  for (const PlannedGrid& grid : grids)
    leveled.emplace_back(grid, units, problem.settings, costs_of_entries).level();
  const std::vector<UnitPiece> pieces = pieces_of(leveled);
  std::vector<std::size_t> cells;  // by unit: number of its cell, counted over all grids
  if (std::ssize(pieces) > units.size()) {
    RegroupedUnits regrouped = regroup_units(problem, units, pieces);
    units = std::move(regrouped.units);
    cells = std::move(regrouped.micro_batches);
  } else {
    for (const UnitPiece& piece : pieces) cells.push_back(piece.micro_batch);
  }
  std::vector<std::vector<UnitId>> units_of_cells;
  for (const PlannedGrid& grid : grids) units_of_cells.resize(units_of_cells.size() + grid.cells.size());
  for (const UnitId unit : ids_below<UnitId>(units.size()))
    units_of_cells[cells[unit.index()]].push_back(unit);
  auto next = units_of_cells.begin();
  for (PlannedGrid& grid : grids) {
    for (std::vector<UnitId>& cell : grid.cells) cell = std::move(*next++);
    require_within_limits(units, grid);
  }
}

void GridStrategy::assign(const StepProblem& problem, StepAssignment& assignment) const {
  const IdGroups<UnitId> mini_batches = cut_into_mini_batches(problem, assignment.units);
  std::vector<PlannedGrid> grids;
  for (std::int64_t m = 0; m < mini_batches.size(); ++m)
    grids.push_back(plan_grid(problem.settings, assignment.units, mini_batches[m]));
  if (assignment.units.has_shared_prefixes()) level_grids(problem, assignment.units, grids);
  for (const PlannedGrid& grid : grids)
    assignment.mini_batches.push_back(assign_grid(problem.settings, assignment.units, grid));
  place_shares(problem, assignment);
}

std::unique_ptr<const MicroBatcher> GridStrategy::make_micro_batcher(const StepProblem& problem,
                                                                     const StepAssignment& assignment) const {
  return std::make_unique<JointMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
