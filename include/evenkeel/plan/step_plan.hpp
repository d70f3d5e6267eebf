#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/plan/dp_assignment.hpp"
#include "evenkeel/plan/micro_batch_plan.hpp"

namespace evenkeel {

/// The share of one DP rank in a step.
struct DpRankPlan {
  std::int64_t lower_bound = 0;  ///< no packing of its samples has fewer micro-batches
  std::int64_t needed = 0;       ///< the fewest for which a packing was found, before the count was agreed
  std::vector<MicroBatchPlan> micro_batches;

  [[nodiscard]] std::int64_t tokens() const noexcept;
  [[nodiscard]] std::int64_t aligned_tokens() const noexcept;
  [[nodiscard]] Cost cost() const noexcept;

  friend bool operator==(const DpRankPlan&, const DpRankPlan&) = default;
};

/// A whole step: every DP rank's micro-batches.
struct StepPlan {
  std::int64_t num_micro_batches = 0;  ///< K, equal on all DP ranks
  std::vector<DpRankPlan> ranks;       ///< one a DP rank

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

/// Plans a whole step in one process: the same assignment, counts and micro-batches that the ranks of a job
/// arrive at together, each planning its own part. Throws ConfigError and LimitError as the job would. Pure,
/// deterministic.
[[nodiscard]] StepPlan plan_step(const LengthTable& table, const PlanSettings& settings);

/// One 64-bit hash of who gets what: equal plans have equal hashes on every machine. Debug builds compare it
/// over ranks.
[[nodiscard]] std::uint64_t plan_hash(const Partition& assignment, std::int64_t num_micro_batches) noexcept;

}  // namespace evenkeel
