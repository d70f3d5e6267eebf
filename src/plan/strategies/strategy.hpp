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

/// Assigns units to DP ranks, makes and orders their micro-batches, and defines when DP ranks wait for each
/// other. There is one class per strategy, which contains all code that is specific to the strategy. Objects
/// have no state: all results are pure functions of replicated input.
class PlanningStrategy {
 public:
  PlanningStrategy() = default;
  PlanningStrategy(const PlanningStrategy&) = delete;
  PlanningStrategy& operator=(const PlanningStrategy&) = delete;
  virtual ~PlanningStrategy() = default;

  /// Throws ConfigError if one of the strategy's own parameters is out of range. Precondition: the settings
  /// meet all requirements (require_compatible).
  virtual void require_valid(const PlanSettings& /*settings*/) const {}
  /// Returns the multiple, in tokens, to which sequence lengths are rounded up in addition to the alignment.
  [[nodiscard]] virtual std::int64_t length_multiple(const PlanSettings& /*settings*/) const noexcept {
    return 1;
  }

  /// Throws LimitError if a sample, or the total of all samples, exceeds a limit.
  virtual void require_samples_fit(const LengthTable& table, const PlanSettings& settings) const;

  /// Assigns the units of `assignment` to its groups, mini-batch by mini-batch, and decides which DP rank
  /// gets which share. A strategy that plans all DP ranks at once may also make all micro-batches here, and
  /// may replace the groups. Precondition: `assignment` has its units, and one group per DP rank.
  virtual void assign(const StepProblem& problem, StepAssignment& assignment) const = 0;
  /// Returns whether the assigned units determine the rest of the assignment.
  [[nodiscard]] virtual bool shares_are_derived_from_units() const noexcept { return false; }
  /// Adds the micro-batches of all DP ranks if they are planned jointly from the assigned units.
  virtual void add_joint_micro_batches(const StepProblem& /*problem*/, StepAssignment& /*assignment*/) const {
  }
  /// Assigns work to DP ranks for BalanceAlgorithm::automatic.
  [[nodiscard]] virtual Partition assign_automatically(const AssignedWork& work,
                                                       const PlanSettings& settings) const;

  /// Returns the object that makes a DP rank's micro-batches. Both arguments must outlive it.
  [[nodiscard]] virtual std::unique_ptr<const MicroBatcher> make_micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const = 0;

  /// Returns whether plans assume that DP ranks synchronize at every micro-batch, so the ranks' j-th
  /// micro-batches all take as long as the longest one. Otherwise, ranks synchronize at the end of each
  /// mini-batch.
  [[nodiscard]] virtual bool ranks_meet_at_micro_batches() const noexcept { return false; }

  // The functions below describe the strategy, mainly for reports, HTML pages and `evenkeel plan`.

  /// Returns whether each micro-batch has its own context-parallel group, and groups may have different
  /// sizes.
  [[nodiscard]] virtual bool has_flexible_groups() const noexcept { return false; }
  /// Returns whether the samples of a micro-batch are padded to one length.
  [[nodiscard]] virtual bool pads_micro_batches() const noexcept { return false; }
  /// Returns whether micro-batches have a fixed number of samples instead of being filled up to a cap on
  /// tokens.
  [[nodiscard]] virtual bool has_fixed_micro_batches() const noexcept { return false; }
  /// Returns the name of the system whose plans are reproduced, a value of balance.preset; empty for
  /// Evenkeel's own plans.
  [[nodiscard]] virtual std::string_view reproduced_system(const PlanSettings& /*settings*/) const noexcept {
    return {};
  }
  /// Returns whether the contents of micro-batches depend on which ranks read the samples, although the
  /// shares do not.
  [[nodiscard]] virtual bool depends_on_owners(const PlanSettings& /*settings*/) const noexcept {
    return false;
  }
};

/// Returns the strategy for these settings; the only dispatch point. The object lives as long as the program.
[[nodiscard]] const PlanningStrategy& strategy_of(const PlanSettings& settings) noexcept;

/// Base class of strategies that first assign units to DP ranks, then make micro-batches of the ranks'
/// shares.
class HierarchicalStrategy : public PlanningStrategy {
 public:
  void assign(const StepProblem& problem, StepAssignment& assignment) const override;
  [[nodiscard]] bool shares_are_derived_from_units() const noexcept override { return true; }

 private:
  /// Decides which DP rank gets which share (place_shares). Strategies that determine this themselves
  /// override it to do nothing.
  virtual void place(const StepProblem& problem, StepAssignment& assignment) const;
};

}  // namespace evenkeel
