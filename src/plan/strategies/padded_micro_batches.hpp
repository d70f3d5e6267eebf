#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/strategies/strategy.hpp"

namespace evenkeel {

/// Makes padded micro-batches, whose lengths are the same on all DP ranks (plan_padded_batches), from the
/// units assigned to each DP rank. O(n log n). Precondition: units are single samples.
class PaddedStrategy : public HierarchicalStrategy {
 public:
  void require_valid(const PlanSettings& settings) const override;
  [[nodiscard]] std::int64_t length_multiple(const PlanSettings& settings) const noexcept override {
    return std::max<std::int64_t>(1, settings.find<PaddedSettings>()->length_round);
  }
  /// Also checks the work including padding, which may exceed the limit even if the work without padding does
  /// not.
  void require_samples_fit(const LengthTable& table, const PlanSettings& settings) const override;
  void add_joint_micro_batches(const StepProblem& problem, StepAssignment& assignment) const override;
  /// Assigns by sorted_stride(), since padding is smallest if the i-th samples of all DP ranks have similar
  /// lengths.
  [[nodiscard]] Partition assign_automatically(const AssignedWork& work,
                                               const PlanSettings& settings) const override;
  [[nodiscard]] std::unique_ptr<const MicroBatcher> make_micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
  [[nodiscard]] bool pads_micro_batches() const noexcept override { return true; }
};

}  // namespace evenkeel
