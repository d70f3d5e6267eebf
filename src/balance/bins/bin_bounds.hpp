#pragma once

#include <cstdint>
#include <vector>

#include "balance/checks.hpp"
#include "evenkeel/balance/bin_packing.hpp"

namespace evenkeel {

/// Returns a lower bound on the number of bins: the total size divided by the limit on sizes, or the total
/// count divided by the limit on counts, whichever is larger, rounded up. Precondition: each item fits in an
/// empty bin. O(1).
[[nodiscard]] std::int64_t sum_bound(const balance_checks::Load& load, BinLimits limits);

/// Returns Martello and Toth's lower bound L2 (1990) on the number of bins of `capacity`, which is at least
/// ceil(sum / capacity). For each threshold t, it counts the bins that the items of size t or more need:
/// 1. Each item above capacity / 2 needs its own bin.
/// 2. Of these bins, the bins with an item above capacity - t have no room for an item of size t.
/// 3. The other items of size t or more fill up the other bins of step 1, and then need more bins.
///
/// The bound is the maximum over all t. Preconditions: `sizes` are in ascending order, non-negative, and at
/// most `capacity`. O(n log n).
[[nodiscard]] std::int64_t l2_bound(const std::vector<std::int64_t>& sizes, std::int64_t capacity);

}  // namespace evenkeel
