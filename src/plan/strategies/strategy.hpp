#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/strategies/micro_batcher.hpp"

namespace evenkeel {

/// Assigns units to DP ranks, makes micro-batches of them, orders these, and says where DP ranks wait for
/// each other. One class per strategy; strategy-specific code lives there. Objects have no state: all results
/// are pure functions of input that all ranks have.
class PlanningStrategy {
 public:
  PlanningStrategy() = default;
  PlanningStrategy(const PlanningStrategy&) = delete;
  PlanningStrategy& operator=(const PlanningStrategy&) = delete;
  virtual ~PlanningStrategy() = default;

  /// Throws ConfigError if one of the strategy's own parameters is out of range. Precondition: the settings
  /// meet all requirements (require_together).
  virtual void require_valid(const PlanSettings& /*settings*/) const {}
  /// Lengths of sequences are rounded up to a multiple of this many tokens, as well as of the alignment.
  [[nodiscard]] virtual std::int64_t length_multiple(const PlanSettings& /*settings*/) const noexcept {
    return 1;
  }

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

  // Descriptions for the report, the page and `evenkeel plan`.

  /// Whether each micro-batch is run by a context-parallel group of its own size.
  [[nodiscard]] virtual bool has_own_groups() const noexcept { return false; }
  /// Whether the samples of a micro-batch are padded to one length.
  [[nodiscard]] virtual bool pads_micro_batches() const noexcept { return false; }
  /// Whether micro-batches are cut by their number of samples.
  [[nodiscard]] virtual bool has_fixed_micro_batches() const noexcept { return false; }
  /// Name of the system whose plans are reproduced, a value of balance.preset; empty for Evenkeel's own
  /// plans.
  [[nodiscard]] virtual std::string_view reproduced_system(const PlanSettings& /*settings*/) const noexcept {
    return {};
  }
  /// Whether micro-batches change with the ranks that read the samples, although the shares do not.
  [[nodiscard]] virtual bool depends_on_owners(const PlanSettings& /*settings*/) const noexcept {
    return false;
  }
};

/// Returns the strategy for these settings; the only dispatch point. Lives as long as the program.
[[nodiscard]] const PlanningStrategy& strategy_of(const PlanSettings& settings) noexcept;

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
