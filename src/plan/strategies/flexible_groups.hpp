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

/// The units of a mini-batch as items that groups of ranks run, by falling cost: in the order in which a
/// schedule looks at them, so that these lie in memory one after the other. Local and deterministic.
/// Precondition: the strategy has groups of their own sizes.
class FlexibleItems {
 public:
  FlexibleItems(const PlanSettings& settings, const PackUnits& units, IdView<UnitId> chosen);
  FlexibleItems(const FlexibleItems&) = delete;
  FlexibleItems& operator=(const FlexibleItems&) = delete;

  [[nodiscard]] const context::Problem& problem() const noexcept { return problem_; }
  [[nodiscard]] UnitId unit(Item item) const noexcept { return order_[static_cast<std::size_t>(item)]; }

 private:
  void keep_countable(CommunicationCost& cost) const;
  void add(const PackUnits& units, UnitId at, const BalanceSettings& balance);

  std::vector<UnitId> order_;
  std::vector<ContextWork> work_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::int64_t> alignments_;
  context::Problem problem_;
};

/// Gives every unit of a step to a group of its own size and the group a micro-batch of it, mini-batch by
/// mini-batch: the assignment's groups, falling by size and rising by first place, what they have of each
/// mini-batch, and the micro-batches of all DP ranks. DP ranks that no group needs get an empty micro-batch
/// of their own. With speeds a group is as fast as its slowest member, and times are in units of the fastest
/// rank's work.
class FlexibleStrategy : public PlanningStrategy {
 public:
  void require_valid(const PlanSettings& settings) const final;
  void require_samples_fit(const LengthTable& table, const PlanSettings& settings) const final;
  void assign(const StepProblem& problem, StepAssignment& assignment) const final;
  [[nodiscard]] bool has_own_groups() const noexcept final { return true; }

 private:
  [[nodiscard]] virtual context::Schedule schedule(const context::Problem& problem,
                                                   const PlanSettings& settings) const = 0;
  /// Tells DP ranks what they run, in which order: the tasks are micro-batches of the same numbers.
  virtual void run(const context::Schedule& schedule, const PlanSettings& settings,
                   JointMicroBatches& joint) const = 0;
};

/// By context::schedule_tree: DP ranks have as many micro-batches as they take part in.
class ContextTreeStrategy final : public FlexibleStrategy {
 public:
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;

 private:
  [[nodiscard]] context::Schedule schedule(const context::Problem& problem,
                                           const PlanSettings& settings) const override;
  void run(const context::Schedule& schedule, const PlanSettings& settings,
           JointMicroBatches& joint) const override;
};

/// By context::schedule_waves: DP ranks have equally many micro-batches, one a wave. The settings' order is
/// that of whole waves.
class ContextWavesStrategy final : public FlexibleStrategy {
 public:
  [[nodiscard]] std::unique_ptr<const MicroBatcher> micro_batcher(
      const StepProblem& problem, const StepAssignment& assignment) const override;
  [[nodiscard]] bool ranks_meet() const noexcept override { return true; }

 private:
  [[nodiscard]] context::Schedule schedule(const context::Problem& problem,
                                           const PlanSettings& settings) const override;
  void run(const context::Schedule& schedule, const PlanSettings& settings,
           JointMicroBatches& joint) const override;
};

/// When the last DP rank is done, where a micro-batch's cost is the time that its ranks take for it: they
/// wait for each other at the end of each mini-batch or, where they meet, at every micro-batch too.
[[nodiscard]] Cost end_of(const StepPlan& plan, bool meets);

/// Returns a time before which no plan of the problem ends, whatever its groups: the sum of
/// context::lower_bound over the mini-batches, in the units of the cost. Precondition: the strategy has such
/// groups.
[[nodiscard]] Cost flexible_lower_bound(const StepProblem& problem);

}  // namespace evenkeel
