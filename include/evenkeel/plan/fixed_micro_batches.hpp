#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/micro_batch_plan.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// The plain split of a DP rank's entries, in their order: micro_batch.size of them a micro-batch. The last
/// one holds what remains, and a micro-batch is closed early where its next sample would pass the cap or
/// max_samples, so that nothing is dropped and the cap holds. Order and balance are not looked at. Local,
/// deterministic, O(n). Precondition: require_samples_fit did not throw.
///
/// Example: lengths {5, 1, 4, 4, 2}, size 2, cap 8: entries {0, 1}, {2, 3}, {4}; with cap 7 {0, 1}, {2},
/// {3, 4}.
[[nodiscard]] std::vector<MicroBatchPlan> fixed_micro_batches(const LengthTable& table,
                                                              std::span<const std::int64_t> entries,
                                                              const PlanSettings& settings);

}  // namespace evenkeel
