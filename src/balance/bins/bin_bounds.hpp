#pragma once

#include <cstdint>
#include <vector>

#include "balance/checks.hpp"
#include "evenkeel/balance/bin_packing.hpp"

namespace evenkeel {

/// Returns the lower bound on the number of bins from the sums of sizes and of counts. Precondition: each
/// item fits in an empty bin. O(1).
[[nodiscard]] std::int64_t sum_bound(const balance_checks::Load& load, BinLimits limits);

/// Returns Martello and Toth's lower bound L2 (1990) on the number of bins of `capacity`, which is at least
/// ceil(sum / capacity). It is the maximum, over all thresholds t, of the number of bins that the following
/// items need: each item above half the capacity needs its own bin. Of these bins, those with items above
/// capacity - t have no room for an item of at least t. The other items of at least t use the room in the
/// remaining bins, and then need more bins. Preconditions: `sizes` are in ascending order, non-negative, and
/// at most `capacity`. O(n log n).
[[nodiscard]] std::int64_t l2_bound(const std::vector<std::int64_t>& sizes, std::int64_t capacity);

}  // namespace evenkeel
