#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/shared_groups.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/micro_batches/micro_batch_layout.hpp"

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
        planned(assign_and_plan(problem())),
        losses(step_losses(table, plan(), loss)) {}

  [[nodiscard]] StepProblem problem() const { return {table, settings, step, trees}; }
  [[nodiscard]] const StepPlan& plan() const noexcept { return planned.plan; }
  /// The tensors of a micro-batch on CP rank 0, without fields.
  [[nodiscard]] PackedMicroBatch layout_of(const MicroBatchPlan& micro_batch) const {
    return lay_out(problem(), planned.assignment, micro_batch, CpRank{0});
  }

  const LengthTable table;
  const PlanSettings settings;
  const std::int64_t step;
  const std::vector<SharedGroup> trees;
  const AssignedPlan planned;
  const std::vector<std::vector<MicroBatchLoss>> losses;  ///< by DP rank and micro-batch
};

/// The share of a DP rank, and one micro-batch of it.
struct RankOfStep {
  std::shared_ptr<PlannedStep> of;
  std::size_t rank;

  [[nodiscard]] const DpRankPlan& plan() const { return of->plan().ranks[rank]; }
};
struct MicroBatchOfStep {
  std::shared_ptr<PlannedStep> of;
  std::size_t rank;
  std::size_t index;

  [[nodiscard]] const MicroBatchPlan& plan() const { return of->plan().ranks[rank].micro_batches[index]; }
  [[nodiscard]] const MicroBatchLoss& loss() const { return of->losses[rank][index]; }
};

}  // namespace evenkeel::python
