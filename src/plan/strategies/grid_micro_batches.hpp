#pragma once

#include "plan/strategies/strategy.hpp"

namespace evenkeel {

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
