#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/plan/micro_batch_plan.hpp"
#include "evenkeel/plan/step_problem.hpp"

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

/// Plans a whole step in one process: the same shares, counts and micro-batches that the ranks of a job
/// arrive at together. Throws as assign_step does. Pure, deterministic.
[[nodiscard]] StepPlan plan_step(const StepProblem& problem);

}  // namespace evenkeel
