#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Items 0..n-1 in k runs that differ by one item at most, the longer ones first: what comes without
/// balancing. Preconditions: items >= 0, k >= 1.
[[nodiscard]] Partition contiguous_runs(std::int64_t items, std::int64_t k);

/// Items by rising (length, item), every k-th to the same group: group g holds positions g, g+k, ... of that
/// order, so that position i of every group has nearly the same length. ROLL's dynamic batching assigns
/// samples to DP ranks like this. The first n mod k groups hold one item more. O(n log n). Precondition: k
/// >= 1.
///
/// Example: lengths {7, 6, 8, 5}, k = 2: groups {3, 0} and {1, 2}.
[[nodiscard]] Partition sorted_stride(std::span<const std::int64_t> lengths, std::int64_t k);

}  // namespace evenkeel
