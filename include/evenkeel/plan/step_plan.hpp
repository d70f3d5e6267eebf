#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/dealt_step.hpp"
#include "evenkeel/plan/micro_batch_plan.hpp"

namespace evenkeel {

/// The share of one DP rank in a step, over all its mini-batches.
struct DpRankPlan {
  std::int64_t lower_bound = 0;  ///< no packing of its samples has fewer micro-batches
  std::int64_t needed = 0;       ///< the fewest for which a packing was found, before the count was agreed
  std::vector<MicroBatchPlan> micro_batches;  ///< mini-batch after mini-batch

  [[nodiscard]] std::int64_t tokens() const noexcept;
  [[nodiscard]] std::int64_t aligned_tokens() const noexcept;
  [[nodiscard]] Cost cost() const noexcept;

  friend bool operator==(const DpRankPlan&, const DpRankPlan&) = default;
};

/// A whole step: every DP rank's micro-batches.
struct StepPlan {
  std::int64_t num_micro_batches = 0;  ///< K, over all mini-batches, equal on all DP ranks
  std::vector<DpRankPlan> ranks;       ///< one a DP rank

  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

/// The count of micro-batches of each mini-batch that all DP ranks use, from the largest any of them needs
/// for it (see agreed_count): the fewest there can be (see fastest_counts).
[[nodiscard]] std::vector<std::int64_t> agreed_counts(std::span<const std::int64_t> largest_needed,
                                                      const PlanSettings& settings);

/// One DP rank's whole share. `own` is its count_micro_batches, `agreed` the agreed counts. Local.
[[nodiscard]] DpRankPlan plan_dp_rank(const LengthTable& table, const DealtStep& dealt, DpRank rank,
                                      std::span<const GroupCount> own, std::span<const std::int64_t> agreed,
                                      const PlanSettings& settings);

/// Plans a whole step in one process: the same shares, counts and micro-batches that the ranks of a job
/// arrive at together, each planning its own part. Throws as deal_step does. Pure, deterministic.
[[nodiscard]] StepPlan plan_step(const LengthTable& table, const PlanSettings& settings,
                                 std::int64_t step = 0, std::span<const SharedGroup> trees = {});

}  // namespace evenkeel
