#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// ROLL's `batch_balance`, the reordering of a global batch before it is cut into equal runs for the DP
/// ranks: group r holds the samples of DP rank r, and partition.items() is ROLL's new order. Karmarkar-Karp
/// with equal counts on the work of 24576 s + s^2; inside a rank, cheap samples stand at both ends. With
/// `mini_batch` (ROLL's keep_minibatch), each run of that many samples over all ranks is assigned on its own.
/// Identical to the reference wherever it succeeds.
///
/// Where it does not: counts that dp does not divide differ by one, and the samples after the last whole
/// mini-batch are assigned as a smaller one, where the reference drops them. Inside a rank the reference's
/// order joins the rank's mini-batches again, so that only their shares are kept, not their bounds;
/// MiniBatches keeps both.
///
/// Local, deterministic. Throws ConfigError when dp or mini_batch is below 1, and as karmarkar_karp does.
[[nodiscard]] Partition roll_batch_balance(std::span<const std::int64_t> lengths, int dp,
                                           std::optional<std::int64_t> mini_batch = std::nullopt);

}  // namespace evenkeel
