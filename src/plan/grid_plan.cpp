#include "evenkeel/plan/grid_plan.hpp"

#include <algorithm>

#include "evenkeel/balance/grid_partition.hpp"
#include "evenkeel/plan/dp_assignment.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> aligned_lengths(const LengthTable& table, std::int64_t alignment) {
  std::vector<std::int64_t> lengths;
  lengths.reserve(static_cast<std::size_t>(table.size()));
  for (const LengthEntry& entry : table.entries())
    lengths.push_back(align_up(entry.shape.length(), alignment));
  return lengths;
}

/// Where each column goes: order_micro_batches on one stand-in a column, as dear as the column's dearest
/// cell.
std::vector<std::int64_t> column_order(const Partition& cells, std::span<const Cost> costs, GridShape shape,
                                       MicroBatchOrder order) {
  const std::vector<Cost> sums = group_sums(cells, costs);
  std::vector<MicroBatchPlan> stand_ins;
  for (std::int64_t j = 0; j < shape.columns; ++j) {
    MicroBatchPlan& stand_in = stand_ins.emplace_back();
    for (std::int64_t row = 0; row < shape.rows; ++row)
      stand_in.cost = std::max(stand_in.cost, sums[static_cast<std::size_t>(row * shape.columns + j)]);
    stand_in.entries = {shape.columns - 1 - j};  // of equals the first column goes first
  }
  order_micro_batches(stand_ins, order);
  std::vector<std::int64_t> columns;
  for (const MicroBatchPlan& stand_in : stand_ins)
    columns.push_back(shape.columns - 1 - stand_in.entries.front());
  return columns;
}

}  // namespace

GridPlan plan_grid(const LengthTable& table, const PlanSettings& settings) {
  require_samples_fit(table, settings);
  const std::vector<Cost> costs = costs_of(table, settings);
  const std::vector<std::int64_t> aligned = aligned_lengths(table, settings.alignment());
  const BinLimits limits = settings.micro_batch.limits();
  GridPlan plan;
  plan.cells = count_groups(costs, aligned, limits);
  const std::int64_t of_a_rank = plan.cells.needed / settings.dp + (plan.cells.needed % settings.dp != 0);
  const GridShape shape{settings.dp, agreed_count(of_a_rank, settings)};
  const Partition cells = partition_into_grid(costs, aligned, limits, shape);
  const std::vector<std::int64_t> columns = column_order(cells, costs, shape, settings.micro_batch.order);
  for (std::int64_t rank = 0; rank < shape.rows; ++rank) {
    std::vector<MicroBatchPlan>& micro_batches = plan.ranks.emplace_back();
    for (const std::int64_t j : columns) {
      MicroBatchPlan& micro_batch = micro_batches.emplace_back();
      for (const std::int64_t entry : cells[rank * shape.columns + j]) {
        const auto at = static_cast<std::size_t>(entry);
        micro_batch.entries.push_back(entry);
        micro_batch.tokens += table[entry].shape.length();
        micro_batch.aligned_tokens += aligned[at];
        micro_batch.cost += costs[at];
      }
    }
  }
  return plan;
}

}  // namespace evenkeel
