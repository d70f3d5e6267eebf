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

/// The other DP ranks, as a rank that plans with them sees them. By itself: the ranks of one process, which
/// have nobody to ask.
class PlanningPeers {
 public:
  PlanningPeers() = default;
  PlanningPeers(const PlanningPeers&) = delete;
  PlanningPeers& operator=(const PlanningPeers&) = delete;
  virtual ~PlanningPeers() = default;

  /// Runs the part of planning that needs no other rank. A job in which no rank may fail alone keeps the
  /// exception and skips later parts. The caller must convert `work` without allocating, with std::ref if it
  /// captures more than two references.
  virtual void locally(const std::function<void()>& work) { work(); }
  /// Makes every number the largest that any rank has there. Collective. Lists are equally long on all ranks
  /// whose work has not failed.
  virtual void take_largest(std::span<std::int64_t> /*numbers*/) {}
};

/// Plans the share of some DP ranks in an assigned step: counts the micro-batches that each needs, agrees on
/// a count with the peers, and packs exactly as many. This is the one path to a plan: a job's rank goes it
/// for its own DP rank, a single process for all of them. Collective over the peers. Deterministic.
/// Precondition: `assignment` comes from assign_step of this problem.
[[nodiscard]] StepPlan plan_dp_ranks(const StepProblem& problem, const StepAssignment& assignment,
                                     std::span<const DpRank> ranks, PlanningPeers& peers);

/// A plan for all DP ranks and the assignment that it was made from, whose units its micro-batches name.
/// Units that are made again from the settings may be others, since a grid cuts trees for equal work.
struct AssignedPlan {
  StepAssignment assignment;
  StepPlan plan;
  std::optional<StrategyChoice> choice;  ///< set if the plan decided its strategy
};

/// Plans a step as plan_step does, and keeps the assignment. Throws as assign_step does. Pure, deterministic.
[[nodiscard]] AssignedPlan assign_and_plan(const StepProblem& problem);

/// What CountRule::fastest compares: the time (PlanSettings::time_of) of each micro-batch of a DP rank, in
/// the order in which they run, at each of the 8 smallest counts that are allowed; mini-batch after
/// mini-batch. `fewest` are the agreed counts, so that the list is equally long on all ranks. Local; as
/// costly as 8 plans.
[[nodiscard]] std::vector<Cost> times_at_counts(const MicroBatcher& batcher, DpRank rank,
                                                std::span<const std::int64_t> fewest,
                                                const PlanSettings& settings);

/// The count of each mini-batch at which ranks that meet at every micro-batch are done first, by
/// estimated_time with the settings' overhead and pipeline stages; the smallest on a tie. `slowest` has the
/// largest of all DP ranks' times_at_counts, entry by entry. Deterministic, local.
///
/// Example: ranks with samples of {4, 4, 4} and {2, 2, 2, 2, 2, 2} tokens under a cap of 8. Two
/// micro-batches, of 8 and 4 tokens beside 6 and 6, take 14; three of 4 take 12, and are chosen while a
/// micro-batch's overhead is below 2.
[[nodiscard]] std::vector<std::int64_t> fastest_counts(std::span<const Cost> slowest,
                                                       std::span<const std::int64_t> fewest,
                                                       const PlanSettings& settings);

}  // namespace evenkeel
