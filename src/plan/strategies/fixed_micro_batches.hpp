#pragma once

#include "plan/strategies/strategy.hpp"

namespace evenkeel {

/// Splits a DP rank's units, in their order or a random order, into micro-batches of micro_batch.size
/// samples. The last micro-batch has the remaining samples. A micro-batch is closed early if its next unit
/// would exceed the size, the cap, max_samples or a row cap. Units are never dropped or split, and the cap
/// always holds. Costs are ignored. O(n).
///
/// Example: lengths {5, 1, 4, 4, 2}, size 2 and cap 8 give entries {0, 1}, {2, 3}, {4}; with cap 7, they give
/// {0, 1}, {2}, {3, 4}.
class FixedMicroBatcher final : public MicroBatcher {
 public:
  using MicroBatcher::MicroBatcher;

  [[nodiscard]] GroupCount count(MiniBatchShare share) const override;

 private:
  [[nodiscard]] std::vector<MicroBatchPlan> pack_at_most(MiniBatchShare share,
                                                         std::int64_t count) const override;
  [[nodiscard]] std::vector<UnitId> packing_order(MiniBatchShare share) const;
};

/// Micro-batches of a fixed number of samples; each DP rank splits its own share.
class FixedStrategy : public HierarchicalStrategy {
 public:
  void require_valid(const PlanSettings& settings) const override;
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
  [[nodiscard]] bool has_fixed_micro_batches() const noexcept override { return true; }
  /// Returns true if samples are shuffled and shares are placed by locality: the random order of a share
  /// depends on its DP rank, and locality decides which DP rank gets which share.
  [[nodiscard]] bool depends_on_owners(const PlanSettings& settings) const noexcept override {
    return settings.find<FixedSettings>()->shuffle && settings.balance.placement == PlacementRule::locality;
  }
};

}  // namespace evenkeel
