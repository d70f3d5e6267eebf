#include "plan/strategies/grid_micro_batches.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "balance/grid/grid_partition.hpp"
#include "base/list_checks.hpp"
#include "evenkeel/base/assertions.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/placement/placement.hpp"
#include "plan/strategies/grid_leveling.hpp"
#include "plan/strategies/joint_micro_batcher.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {
namespace {

/// Where each column goes: order_micro_batches on one stand-in a column, as costly as the column's costliest
/// cell.
std::vector<std::int64_t> column_order(const PackUnits& units, const PlannedGrid& grid,
                                       const PlanSettings& settings) {
  const auto [rows, columns] = grid.shape;
  std::vector<MicroBatchPlan> stand_ins;
  for (std::int64_t j = 0; j < columns; ++j) {
    MicroBatchPlan& stand_in = stand_ins.emplace_back();
    for (std::int64_t row = 0; row < rows; ++row)
      stand_in.cost = std::max(stand_in.cost, figures_of(units, grid.at(row, j)).cost);
    stand_in.entries = {EntryId{columns - 1 - j}};  // of equals the first column goes first
  }
  order_micro_batches(stand_ins, settings, 1);
  std::vector<std::int64_t> order;
  for (const MicroBatchPlan& stand_in : stand_ins)
    order.push_back(columns - 1 - stand_in.entries.front().value());
  return order;
}

PlannedGrid plan_grid(const PlanSettings& settings, const PackUnits& units, IdView<UnitId> mini_batch) {
  EVENKEEL_PRECONDITION(thorough, ascends_strictly(mini_batch), mini_batch.size());
  const PickedUnits own(units, mini_batch);
  const GroupCount cells = count_micro_batches(units, mini_batch);
  const auto of_a_rank = [&](std::int64_t n) { return n / settings.dp + (n % settings.dp != 0 ? 1 : 0); };
  PlannedGrid grid;
  grid.count = {of_a_rank(cells.lower_bound), of_a_rank(cells.needed)};
  grid.shape = {settings.dp, agreed_count(grid.count.needed, settings)};
  const Partition cells_of_units = partition_into_grid(own.costs, own.items(), units.limits(), grid.shape);
  for (std::int64_t c = 0; c < cells_of_units.size(); ++c)
    grid.cells.push_back(picked(mini_batch, cells_of_units[c]));
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
      assigned.joint.run(DpRank{static_cast<int>(rank)}, assigned.joint.add(cell, figures_of(units, cell)));
    }
  }
  assigned.units = IdGroups<UnitId>(IdGroups<UnitId>(shares).items().with_sorted_items());
  return assigned;
}

}  // namespace

void GridStrategy::assign(const StepProblem& problem, StepAssignment& assignment) const {
  const IdGroups<UnitId> mini_batches = cut_into_mini_batches(problem, assignment.units);
  std::vector<PlannedGrid> grids;
  for (std::int64_t m = 0; m < mini_batches.size(); ++m)
    grids.push_back(plan_grid(problem.settings, assignment.units, mini_batches[m]));
  if (assignment.units.shared()) level_grids(problem, assignment.units, grids);
  for (const PlannedGrid& grid : grids)
    assignment.mini_batches.push_back(assign_grid(problem.settings, assignment.units, grid));
  place_shares(problem, assignment);
}

std::unique_ptr<const MicroBatcher> GridStrategy::micro_batcher(const StepProblem& problem,
                                                                const StepAssignment& assignment) const {
  return std::make_unique<JointMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
