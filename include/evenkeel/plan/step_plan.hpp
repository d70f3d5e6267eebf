#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/function_ref.hpp"
#include "evenkeel/plan/micro_batch_plan.hpp"
#include "evenkeel/plan/step_assignment.hpp"

namespace evenkeel {

/// The share of one DP rank in a step, over all its mini-batches.
struct DpRankPlan {
  /// No packing of its samples under the cap and the sample limit has fewer micro-batches; with a grid no
  /// plan of the step has fewer a DP rank.
  std::int64_t lower_bound = 0;
  std::int64_t needed = 0;  ///< the fewest for which a packing was found, before the count was agreed
  std::vector<MicroBatchPlan> micro_batches;  ///< mini-batch after mini-batch

  [[nodiscard]] std::int64_t tokens() const noexcept;
  [[nodiscard]] std::int64_t aligned_tokens() const noexcept;
  [[nodiscard]] Cost cost() const noexcept;

  friend bool operator==(const DpRankPlan&, const DpRankPlan&) = default;
};

/// A whole step: every DP rank's micro-batches.
struct StepPlan {
  std::vector<std::int64_t> counts;  ///< of each mini-batch, equal on all DP ranks
  std::vector<DpRankPlan> ranks;     ///< one a DP rank

  /// K, over all mini-batches.
  [[nodiscard]] std::int64_t num_micro_batches() const noexcept;

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

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

/// Plans a whole step in one process: the same shares, counts and micro-batches that the ranks of a job
/// arrive at together. Throws as assign_step does. Pure, deterministic.
[[nodiscard]] StepPlan plan_step(const StepProblem& problem);

}  // namespace evenkeel
