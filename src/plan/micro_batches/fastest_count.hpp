#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/strategies/micro_batcher.hpp"

namespace evenkeel {

/// What CountRule::fastest compares: the time (PlanSettings::time_of) of each micro-batch of a DP rank, in
/// the order in which they run, at each of the 8 smallest counts that are allowed; mini-batch after
/// mini-batch. `fewest` are the agreed counts, so that the list is equally long on all ranks. Local; as
/// costly as 8 plans.
[[nodiscard]] std::vector<Cost> times_at_counts(const MicroBatcher& batcher, DpRank rank,
                                                std::span<const std::int64_t> fewest,
                                                const PlanSettings& settings);

/// The count of each mini-batch at which ranks that meet at every micro-batch are done first, by
/// estimated_time with the settings' overhead and pipeline stages; the smallest on a tie. `slowest` has the
/// largest of all DP ranks' times_at_counts, entry by entry. Deterministic, local.
///
/// Example: ranks with samples of {4, 4, 4} and {2, 2, 2, 2, 2, 2} tokens under a cap of 8. Two
/// micro-batches, of 8 and 4 tokens beside 6 and 6, take 14; three of 4 take 12, and are chosen while a
/// micro-batch's overhead is below 2.
[[nodiscard]] std::vector<std::int64_t> fastest_counts(std::span<const Cost> slowest,
                                                       std::span<const std::int64_t> fewest,
                                                       const PlanSettings& settings);

}  // namespace evenkeel
