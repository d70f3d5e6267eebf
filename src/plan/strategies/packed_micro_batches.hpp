#pragma once

#include "evenkeel/balance/bin_packing.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {

/// As many units as the limits hold: as few micro-batches as are found and balanced, or what an algorithm
/// asked for by name packs. Units ascend; micro-batches stand in the settings' order.
class PackedMicroBatcher final : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override;

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> packed(MiniBatchShare share, std::int64_t count) const override;
};

/// Each DP rank packs and orders its own.
class PackedStrategy : public HierarchicalStrategy {
 public:
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
};

}  // namespace evenkeel
