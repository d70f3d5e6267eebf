#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/plan/micro_batch_plan.hpp"

namespace evenkeel {

/// All micro-batches of a step, made at once: `ranks[r][j]` is DP rank r's j-th, and all ranks have K.
struct GridPlan {
  /// Micro-batches the whole step needs under the limits, over all DP ranks.
  GroupCount cells;
  std::vector<std::vector<MicroBatchPlan>> ranks;  ///< dp lists of K

  /// K
  [[nodiscard]] std::int64_t num_micro_batches() const noexcept {
    return ranks.empty() ? 0 : static_cast<std::int64_t>(ranks.front().size());
  }
  friend bool operator==(const GridPlan&, const GridPlan&) = default;
};

/// Packs first and distributes second (strategy `grid`): builds dp * K micro-batches from all samples and
/// lays them out so that the DP ranks' j-th micro-batches cost nearly the same for every j, then so that the
/// ranks' totals do (partition_into_grid). For ranks that meet at every micro-batch: FSDP, all-to-all of
/// experts.
///
/// K is agreed_count of the cells needed, shared out over dp: never more than a plan rank by rank would take.
/// The cap and the sample limit hold always; micro-batches may be empty. The settings' order is that of
/// whole columns, by their dearest micro-batch, so that it is the same on all ranks.
///
/// Local and deterministic on replicated input: every rank computes the whole grid and finds the same.
/// Throws LimitError as require_samples_fit does.
[[nodiscard]] GridPlan plan_grid(const LengthTable& table, const PlanSettings& settings);

}  // namespace evenkeel
