#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/shared_groups.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel::python {

/// A plan with everything that it was made from, so that its parts can be asked about. Does not change once
/// made; what Python holds of it shares it.
class PlannedStep {
 public:
  PlannedStep(LengthTable of_table, PlanSettings with_settings, const LossSettings& loss,
              std::int64_t of_step, std::vector<SharedGroup> of_trees)
      : table(std::move(of_table)),
        settings(std::move(with_settings)),
        step(of_step),
        trees(std::move(of_trees)),
        plan(plan_step(problem())),
        losses(step_losses(table, plan, loss)) {}

  [[nodiscard]] StepProblem problem() const { return {table, settings, step, trees}; }
  /// The tensors of a micro-batch on CP rank 0, without fields. Thread-safe.
  [[nodiscard]] PackedMicroBatch layout_of(const MicroBatchPlan& micro_batch) const;

  const LengthTable table;
  const PlanSettings settings;
  const std::int64_t step;
  const std::vector<SharedGroup> trees;
  const StepPlan plan;
  const std::vector<std::vector<MicroBatchLoss>> losses;  ///< by DP rank and micro-batch

 private:
  mutable std::once_flag once_;
  mutable std::optional<StepAssignment> assignment_;  // made when first asked for
};

/// The share of a DP rank, and one micro-batch of it.
struct RankOfStep {
  std::shared_ptr<PlannedStep> of;
  std::size_t rank;

  [[nodiscard]] const DpRankPlan& plan() const { return of->plan.ranks[rank]; }
};
struct MicroBatchOfStep {
  std::shared_ptr<PlannedStep> of;
  std::size_t rank;
  std::size_t index;

  [[nodiscard]] const MicroBatchPlan& plan() const { return of->plan.ranks[rank].micro_batches[index]; }
  [[nodiscard]] const MicroBatchLoss& loss() const { return of->losses[rank][index]; }
};

}  // namespace evenkeel::python
