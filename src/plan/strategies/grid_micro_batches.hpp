#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/bins/capped_partition.hpp"
#include "balance/grid/grid_partition.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/strategies/strategy.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

/// The micro-batches of one mini-batch on all DP ranks: cell (rank, j) is cells[rank * shape.columns + j],
/// with its units ascending.
struct PlannedGrid {
  GridShape shape;
  GroupCount count;  ///< how many micro-batches a DP rank needs
  std::vector<std::vector<UnitId>> cells;

  [[nodiscard]] const std::vector<UnitId>& at(std::int64_t rank, std::int64_t column) const {
    return cells[static_cast<std::size_t>(rank * shape.columns + column)];
  }
};

/// Ends columns of grids sooner where units are trees of samples: DP ranks that meet at every micro-batch
/// wait for the costliest of each column, and few trees fill a cell, so that grids of whole trees wait for
/// several percent of a step. Moves samples, neighbors depth-first, from the costliest cell of a column to
/// cells that are less costly than the costliest of their column, as long as that makes the sum over all
/// columns of their costliest cells smaller. What both sides of a cut then compute costs nothing where ranks
/// waited.
///
/// Units of `units` that were cut are replaced by their parts, and the grids name the new units. The limits
/// of micro-batches hold as before. Changes nothing where fields have caps of rows of their own
/// (MicroBatchSettings::max_rows), nor for less than 0.2 % of a column. Pure, deterministic; the work is
/// bounded by a count. Precondition: units share, and every unit is in one cell of one grid.
///
/// Example: on two ranks, a tree of three paths of 14 tokens that share 4, which has 34 rows, and a path
/// of 12. One path of the tree moves: 24 rows and 26, of which 4 are repeated, and nobody waits for 34.
void level_grids(const StepProblem& problem, PackUnits& units, std::span<PlannedGrid> grids);

/// Packs each mini-batch first and distributes it second: builds dp * K micro-batches from all its units and
/// lays them out so that the DP ranks' j-th micro-batches cost nearly the same for every j, then so that the
/// ranks' totals do (partition_into_grid). For ranks that meet at every micro-batch: FSDP, all-to-all of
/// experts.
///
/// K is agreed_count of the cells needed, shared out over dp: never more than a plan rank by rank would take.
/// The cap and the sample limit hold always; micro-batches may be empty. The settings' order is that of
/// whole columns, by their costliest micro-batch, so that it is the same on all ranks.
class GridStrategy final : public PlanningStrategy {
 public:
  void assign(const StepProblem& problem, StepAssignment& assignment) const override;
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
  [[nodiscard]] bool ranks_meet() const noexcept override { return true; }
};

}  // namespace evenkeel
