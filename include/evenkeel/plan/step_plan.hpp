#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/plan/loss.hpp"
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
  /// Micro-batches of each mini-batch, equal on all DP ranks; in a context tree (`mesh.cp: flexible` with
  /// strategy hierarchical), where a rank has as many as it takes part in, and one at least, the most of any.
  std::vector<std::int64_t> counts;
  std::vector<DpRankPlan> ranks;  ///< one a DP rank

  /// K, over all mini-batches.
  [[nodiscard]] std::int64_t num_micro_batches() const noexcept;

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

/// Plans a whole step in one process: the same shares, counts and micro-batches that the ranks of a job
/// arrive at together. Throws as assign_step does. Pure, deterministic.
[[nodiscard]] StepPlan plan_step(const StepProblem& problem);

/// The weights of every micro-batch of a plan in the loss, one list a DP rank: what the ranks of a job work
/// out for theirs. Throws ConfigError when settings.norm_length < 1. Pure, exact. Precondition: `plan` comes
/// from plan_step of this table. O(samples).
[[nodiscard]] std::vector<std::vector<MicroBatchLoss>> step_losses(const LengthTable& table,
                                                                   const StepPlan& plan,
                                                                   const LossSettings& settings);

/// One 64-bit hash of a whole plan: which samples every micro-batch of every DP rank holds, in which order.
/// Equal plans have equal hashes on every machine. O(samples).
[[nodiscard]] std::uint64_t plan_hash(const StepPlan& plan) noexcept;

}  // namespace evenkeel
