#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/strategies/automatic.hpp"
#include "plan/strategies/micro_batcher.hpp"

namespace evenkeel {

/// Represents the other DP ranks in the collective parts of planning. This base class is for a single process
/// that plans all DP ranks, so its functions do not communicate.
class PlanningPeers {
 public:
  PlanningPeers() = default;
  PlanningPeers(const PlanningPeers&) = delete;
  PlanningPeers& operator=(const PlanningPeers&) = delete;
  virtual ~PlanningPeers() = default;

  /// Runs a part of planning that does not involve other ranks. In jobs, where no rank may fail alone, a
  /// derived class stores the exception and skips later parts. Constructing the std::function must not
  /// allocate memory, so pass a lambda that captures more than two references through std::ref.
  virtual void run_locally(const std::function<void()>& work) { work(); }
  /// Replaces every number with its maximum over all ranks. Collective. Lists have equal lengths on all ranks
  /// whose work has not failed.
  virtual void take_maximum(std::span<std::int64_t> /*numbers*/) {}
};

/// Plans some DP ranks' shares of an assigned step:
/// 1. Count the micro-batches that each rank needs.
/// 2. Agree on a count with the peers.
/// 3. Pack exactly that many.
/// This is the only place where plans are made: a rank of a job plans its own DP rank, and a single process
/// plans all of them. Collective over the peers. Deterministic. Precondition: `assignment` is the result of
/// assign_step() for this problem.
[[nodiscard]] StepPlan plan_dp_ranks(const StepProblem& problem, const StepAssignment& assignment,
                                     std::span<const DpRank> ranks, PlanningPeers& peers);

/// A plan for all DP ranks, and the assignment from which it was made. The plan's micro-batches refer to the
/// assignment's units. Do not rebuild the units from the settings: the result may differ, since a grid cuts
/// trees to equalize work.
struct AssignedPlan {
  StepAssignment assignment;
  StepPlan plan;
  std::optional<StrategyChoice> choice;  ///< set if the strategy was chosen by comparing plans
};

/// Does the same as plan_step(), but also returns the assignment. Throws ConfigError, InputError and
/// LimitError under the same conditions as assign_step(). Pure, deterministic.
[[nodiscard]] AssignedPlan assign_and_plan(const StepProblem& problem);

/// Returns the times that CountRule::fastest compares. For each of the 8 smallest allowed counts of each
/// mini-batch, the result has the time (PlanSettings::time_of) of each micro-batch of a DP rank, in execution
/// order. `fewest` has the agreed count of each mini-batch, so the results have equal lengths on all ranks.
/// Local; takes as long as 8 plans.
[[nodiscard]] std::vector<Cost> times_at_counts(const MicroBatcher& batcher, DpRank rank,
                                                std::span<const std::int64_t> fewest,
                                                const PlanSettings& settings);

/// Returns, for each mini-batch, the count at which ranks that synchronize at every micro-batch finish first,
/// by estimated_time with the settings' overhead and pipeline stages. The smallest count wins ties. `slowest`
/// is the element-wise maximum of times_at_counts() over all DP ranks. Deterministic, local.
///
/// Example: two ranks have samples of {4, 4, 4} and {2, 2, 2, 2, 2, 2} tokens under a cap of 8. With two
/// micro-batches, the first rank has 8 and 4 tokens and the second has 6 and 6, which takes 8 + 6 = 14. With
/// three, each has 4 tokens, which takes 12, so three are chosen if a micro-batch's overhead is below 2.
[[nodiscard]] std::vector<std::int64_t> fastest_counts(std::span<const Cost> slowest,
                                                       std::span<const std::int64_t> fewest,
                                                       const PlanSettings& settings);

}  // namespace evenkeel
