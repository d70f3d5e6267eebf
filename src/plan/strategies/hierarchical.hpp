#pragma once

#include "plan/strategies/strategy.hpp"

namespace evenkeel {

/// Units are assigned to DP ranks first, and each makes micro-batches of its own.
class HierarchicalStrategy : public PlanningStrategy {
 public:
  void assign(const StepProblem& problem, StepAssignment& assignment) const override;
  [[nodiscard]] bool follows_from_units() const noexcept override { return true; }

 private:
  /// Which DP rank takes which share, where that is free.
  virtual void place(const StepProblem& problem, StepAssignment& assignment) const;
};

}  // namespace evenkeel
