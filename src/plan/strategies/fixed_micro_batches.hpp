#pragma once

#include "plan/strategies/strategy.hpp"

namespace evenkeel {

/// The plain split of a DP rank's units, in their order or a drawn one: micro_batch.size samples a
/// micro-batch. The last one holds what remains, and a micro-batch is closed early where its next unit would
/// pass the size, the cap or max_samples, so that nothing is dropped or torn and the cap holds. Balance is
/// not looked at. O(n).
///
/// Example: lengths {5, 1, 4, 4, 2}, size 2, cap 8: entries {0, 1}, {2, 3}, {4}; with cap 7 {0, 1}, {2},
/// {3, 4}.
class FixedMicroBatcher final : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override;

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> packed(MiniBatchShare share, std::int64_t count) const override;
  [[nodiscard]] std::vector<UnitId> in_order(MiniBatchShare share) const;
};

/// Each DP rank cuts its own.
class FixedStrategy : public HierarchicalStrategy {
 public:
  void require_valid(const PlanSettings& settings) const override;
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
  [[nodiscard]] bool has_fixed_micro_batches() const noexcept override { return true; }
  /// Random order is drawn per DP rank, and placement decides which rank has which share.
  [[nodiscard]] bool depends_on_owners(const PlanSettings& settings) const noexcept override {
    return settings.find<FixedSettings>()->shuffle && settings.balance.placement == PlacementRule::locality;
  }
};

}  // namespace evenkeel
