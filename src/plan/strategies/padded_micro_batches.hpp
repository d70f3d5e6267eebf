#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/strategies/strategy.hpp"

namespace evenkeel {

/// Padded micro-batches, whose lengths all DP ranks share (plan_padded_batches), from the units that each DP
/// rank got. O(n log n). Precondition: units are single samples.
class PaddedStrategy : public HierarchicalStrategy {
 public:
  void require_valid(const PlanSettings& settings) const override;
  [[nodiscard]] std::int64_t length_multiple(const PlanSettings& settings) const noexcept override {
    return std::max<std::int64_t>(1, settings.find<PaddedSettings>()->length_round);
  }
  /// Padding counts as work, so that the step's can pass what its samples' own lengths add up to.
  void require_samples_fit(const LengthTable& table, const PlanSettings& settings) const override;
  void add_joint_micro_batches(const StepProblem& problem, StepAssignment& assignment) const override;
  /// Least is wasted when the i-th samples of all DP ranks are about equally long.
  [[nodiscard]] Partition assign_automatically(const AssignedWork& work,
                                               const PlanSettings& settings) const override;
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
  [[nodiscard]] bool pads_micro_batches() const noexcept override { return true; }
};

}  // namespace evenkeel
