#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// The result of a search for a packing.
struct PackingSearchResult {
  std::optional<Partition> packing;
  bool is_proven = false;  ///< if `packing` is nullopt: whether it is proven that there is no packing
};

/// Searches for a packing into at most k bins by bin completion (Korf, 2003): takes the largest remaining
/// item, tries sets of other items that fill up its bin, least waste first, and continues with the next bin.
/// Skips sets that are dominated by a better set (Martello and Toth, 1990), states excluded by the L2 bound,
/// and states that failed before. `steps` is the number of items that may still be examined; the search ends
/// when it reaches 0, so the result does not depend on time. Deterministic. Precondition: every item fits in
/// an empty bin.
[[nodiscard]] PackingSearchResult search_packing(BinItems items, BinLimits limits, std::int64_t k,
                                                 std::int64_t& steps);

}  // namespace evenkeel
