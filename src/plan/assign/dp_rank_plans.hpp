#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/strategies/automatic.hpp"

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

}  // namespace evenkeel
