#pragma once

#include <cstdint>
#include <span>

#include "base/function_ref.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// The other DP ranks, as a rank that plans with them sees them. By itself: the ranks of one process, which
/// have nobody to ask.
class PlanningPeers {
 public:
  PlanningPeers() = default;
  PlanningPeers(const PlanningPeers&) = delete;
  PlanningPeers& operator=(const PlanningPeers&) = delete;
  virtual ~PlanningPeers() = default;

  /// Runs what these ranks work out by themselves. A job that must not let one rank fail alone keeps what is
  /// thrown, and leaves out what comes after.
  virtual void locally(FunctionRef work) { work(); }
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

}  // namespace evenkeel
