#pragma once

#include "evenkeel/plan/dealt_step.hpp"

namespace evenkeel {

/// deal_step with shared prefixes.
[[nodiscard]] DealtStep deal_atoms(const LengthTable& table, const PlanSettings& settings, std::int64_t step,
                                   std::vector<SharedGroup> groups);

/// A DP rank's share of a mini-batch in atoms: how many micro-batches it needs, and those of exactly `count`.
[[nodiscard]] GroupCount count_for_atoms(const DealtMiniBatch& mini_batch, DpRank rank,
                                         const PlanSettings& settings);
[[nodiscard]] std::vector<MicroBatchPlan> plan_atoms(const DealtMiniBatch& mini_batch, DpRank rank,
                                                     std::int64_t count, const PlanSettings& settings);

}  // namespace evenkeel
