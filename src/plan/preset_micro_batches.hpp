#pragma once

#include "evenkeel/plan/micro_batch_plan.hpp"

namespace evenkeel {

/// The micro-batches of the system that settings.balance.preset names: reference_micro_batches over a DP
/// rank's entries, in the order in which they are given. Precondition: the preset is not `none`.
[[nodiscard]] GroupCount count_for_preset(const LengthTable& table, std::span<const std::int64_t> entries,
                                          const PlanSettings& settings);
[[nodiscard]] std::vector<MicroBatchPlan> preset_micro_batches(const LengthTable& table,
                                                               std::span<const std::int64_t> entries,
                                                               std::int64_t count,
                                                               const PlanSettings& settings);

}  // namespace evenkeel
