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

/// The micro-batches of one mini-batch on all DP ranks: cell (rank, j) is cells[rank * shape.columns + j] and
/// lists its units, ascending.
struct PlannedGrid {
  GridShape shape;
  GroupCount count;  ///< number of micro-batches that a DP rank needs, and a lower bound on it
  std::vector<std::vector<UnitId>> cells;

  [[nodiscard]] const std::vector<UnitId>& at(std::int64_t rank, std::int64_t column) const {
    return cells[static_cast<std::size_t>(rank * shape.columns + column)];
  }
};

/// Levels the columns of grids whose units are trees of samples, so that the columns end earlier. DP ranks
/// that synchronize at every micro-batch wait for the costliest cell of each column. Only a few trees fit in
/// a cell, so grids of whole trees waste several percent of a step.
///
/// Repeatedly moves samples that are consecutive in depth-first order from the costliest cell of a column to
/// another cell, as long as this reduces the sum of the costs of the columns' costliest cells. After a cut,
/// both ranks compute the tokens that the two parts share. This costs no time if the ranks would otherwise
/// have been waiting.
///
/// Cut units are replaced in `units` with their parts, and the grids refer to the new units. All limits of
/// micro-batches still hold. Does nothing if fields have row caps (MicroBatchSettings::max_rows), and ignores
/// gains below 0.2 % of a column's cost. Pure and deterministic; the amount of work is bounded. Precondition:
/// units share prefixes, and every unit is in exactly one cell of one grid.
///
/// Example: the first rank has a tree of three paths of 14 tokens each that share their first 4 tokens (34
/// rows), and the second rank has a single path of 12 tokens. One path of the tree moves to the second rank.
/// The ranks then have 24 and 26 rows, including 4 repeated ones, and the second rank no longer waits until
/// the first has computed 34.
void level_grids(const StepProblem& problem, PackUnits& units, std::span<PlannedGrid> grids);

/// First packs each mini-batch, then distributes it: makes dp * K micro-batches from all its units, and
/// arranges them so that, for every j, the DP ranks' j-th micro-batches cost nearly the same. The second goal
/// is that the ranks' totals are nearly equal (partition_into_grid). Meant for ranks that synchronize at
/// every micro-batch, as with FSDP or the all-to-all of experts.
///
/// K is agreed_count() of the number of required cells divided by dp, rounded up. If minimum numbers of
/// micro-batches are found, it is never larger than if each rank were planned separately. With
/// CountRule::fastest, K may be larger by up to 7 * count_multiple(): it is then the count with which ranks
/// that synchronize at every micro-batch are expected to finish first (estimated_time with the settings'
/// overhead and pipeline stages). The limits of micro-batches always hold; micro-batches may be empty.
/// MicroBatchSettings::order applies to whole columns, whose cost is that of their costliest micro-batch, so
/// the execution order is the same on all ranks.
class GridStrategy final : public PlanningStrategy {
 public:
  void assign(const StepProblem& problem, StepAssignment& assignment) const override;
  [[nodiscard]] std::unique_ptr<const MicroBatcher> make_micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
  [[nodiscard]] bool ranks_meet_at_micro_batches() const noexcept override { return true; }
};

}  // namespace evenkeel
