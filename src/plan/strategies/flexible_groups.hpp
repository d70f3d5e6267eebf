#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/schedule.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/strategies/strategy.hpp"
#include "plan/units/id_groups.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {

/// The units of a mini-batch as the items of a context::Problem, sorted by descending cost. Schedulers visit
/// items in this order, so they read the items' data contiguously. Local and deterministic. Precondition: the
/// strategy has groups of different sizes.
class FlexibleItems {
 public:
  FlexibleItems(const PlanSettings& settings, const PackUnits& units, IdView<UnitId> chosen);
  FlexibleItems(const FlexibleItems&) = delete;
  FlexibleItems& operator=(const FlexibleItems&) = delete;

  [[nodiscard]] const context::Problem& problem() const noexcept { return problem_; }
  [[nodiscard]] UnitId unit(Item item) const noexcept { return order_[static_cast<std::size_t>(item)]; }

 private:
  void clamp_costs(CommunicationCost& cost) const;
  void add(const PackUnits& units, UnitId at, const BalanceSettings& balance);

  std::vector<UnitId> order_;
  std::vector<ContextWork> work_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::int64_t> alignments_;
  context::Problem problem_;
};

/// Base class of the strategies whose groups have different sizes. Assigns the units of each mini-batch to
/// groups and to micro-batches of these groups. Sets the assignment's groups (by descending size, then
/// ascending first place), each group's units, and the micro-batches of all DP ranks. DP ranks without a
/// micro-batch get an empty one. If DP ranks have different speeds, a group is as fast as its slowest member,
/// and times are in units of the fastest rank's work.
class FlexibleStrategy : public PlanningStrategy {
 public:
  void require_valid(const PlanSettings& settings) const final;
  void require_samples_fit(const LengthTable& table, const PlanSettings& settings) const final;
  void assign(const StepProblem& problem, StepAssignment& assignment) const final;
  [[nodiscard]] bool has_own_groups() const noexcept final { return true; }

 private:
  [[nodiscard]] virtual context::Schedule schedule(const context::Problem& problem,
                                                   const PlanSettings& settings) const = 0;
  /// Sets the micro-batches of each DP rank, in execution order. Micro-batch i of `joint` is task i of the
  /// schedule.
  virtual void assign_execution_order(const context::Schedule& schedule, const PlanSettings& settings,
                                      JointMicroBatches& joint) const = 0;
};

/// Schedules with context::schedule_tree(). Each DP rank has only the micro-batches in which it takes part,
/// so the numbers of micro-batches may differ between ranks.
class ContextTreeStrategy final : public FlexibleStrategy {
 public:
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;

 private:
  [[nodiscard]] context::Schedule schedule(const context::Problem& problem,
                                           const PlanSettings& settings) const override;
  void assign_execution_order(const context::Schedule& schedule, const PlanSettings& settings,
                              JointMicroBatches& joint) const override;
};

/// Schedules with context::schedule_waves(). All DP ranks have the same number of micro-batches, one per
/// wave. MicroBatchSettings::order applies to whole waves.
class ContextWavesStrategy final : public FlexibleStrategy {
 public:
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
  [[nodiscard]] bool ranks_meet() const noexcept override { return true; }

 private:
  [[nodiscard]] context::Schedule schedule(const context::Problem& problem,
                                           const PlanSettings& settings) const override;
  void assign_execution_order(const context::Schedule& schedule, const PlanSettings& settings,
                              JointMicroBatches& joint) const override;
};

/// Returns the time at which the last DP rank finishes if a micro-batch's cost is its execution time. Ranks
/// wait for each other at the end of each mini-batch and, if `meets`, at every micro-batch.
[[nodiscard]] Cost end_time_of(const StepPlan& plan, bool meets);

/// Returns a lower bound on the end time of any plan of the problem, for any choice of groups: the sum of
/// context::lower_bound() over the mini-batches, in the units of the cost. Precondition: the strategy has
/// groups of different sizes.
[[nodiscard]] Cost flexible_lower_bound(const StepProblem& problem);

}  // namespace evenkeel
