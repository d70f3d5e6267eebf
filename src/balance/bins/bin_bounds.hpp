#pragma once

#include <cstdint>
#include <vector>

#include "balance/checks.hpp"
#include "evenkeel/balance/bin_packing.hpp"

namespace evenkeel {

/// The bins that the sum of sizes or of counts alone asks for. Precondition: each item fits alone. O(1).
[[nodiscard]] std::int64_t sum_bound(const balance_checks::Load& load, BinLimits limits);

/// Martello and Toth's L2 for bins of `capacity` (1990), ceil(sum / capacity) or more. For a threshold t:
/// items above capacity - t can share a bin with no item of at least t; those above half need a bin each; the
/// others of at least t fill what those leave, and then more bins. Preconditions: `sizes` rise, none is
/// negative or above `capacity`. O(n log n).
[[nodiscard]] std::int64_t l2_bound(const std::vector<std::int64_t>& sizes, std::int64_t capacity);

}  // namespace evenkeel
