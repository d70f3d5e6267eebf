#pragma once

#include <memory>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/strategies/micro_batcher.hpp"

namespace evenkeel {

/// A way to plan: who gets which units, what micro-batches are made of them, in which order, and where DP
/// ranks wait for each other. One class a way; what is peculiar to it stands there. Objects have no state:
/// whatever they work out is a pure function of what all ranks have.
class PlanningStrategy {
 public:
  PlanningStrategy() = default;
  PlanningStrategy(const PlanningStrategy&) = delete;
  PlanningStrategy& operator=(const PlanningStrategy&) = delete;
  virtual ~PlanningStrategy() = default;

  /// Throws LimitError where a sample, or what all of them come to, is above a limit.
  virtual void require_samples_fit(const LengthTable& table, const PlanSettings& settings) const;

  /// Gives the units of `assignment` to its groups, mini-batch by mini-batch, and places their shares; makes
  /// all DP ranks' micro-batches, and other groups than those of DP ranks, where that is done at once.
  /// Precondition: units are made, and the groups are those of DP ranks.
  virtual void assign(const StepProblem& problem, StepAssignment& assignment) const = 0;
  /// Whether everything else follows from who gets what.
  [[nodiscard]] virtual bool follows_from_units() const noexcept { return false; }
  /// Adds the micro-batches of all DP ranks where they follow from who got what.
  virtual void add_joint_micro_batches(const StepProblem& /*problem*/, StepAssignment& /*assignment*/) const {
  }
  /// What BalanceAlgorithm::automatic does where units are given to DP ranks.
  [[nodiscard]] virtual Partition assign_automatically(const AssignedWork& work,
                                                       const PlanSettings& settings) const;

  /// Who makes a DP rank's micro-batches. Both must outlive it.
  [[nodiscard]] virtual std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const = 0;

  /// Whether plans count on DP ranks that meet at every micro-batch, so that the longest of each wave stands
  /// for all; else they meet at the end of each mini-batch.
  [[nodiscard]] virtual bool ranks_meet() const noexcept { return false; }
};

/// The way of these settings. This is the only place that asks: a test counts the others. Lives as long as
/// the program.
[[nodiscard]] const PlanningStrategy& strategy_of(const PlanSettings& settings) noexcept;

}  // namespace evenkeel
