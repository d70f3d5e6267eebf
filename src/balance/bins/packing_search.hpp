#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// What a search for a packing found.
struct PackingSearchResult {
  std::optional<Partition> packing;
  bool is_proven = false;  ///< without a packing: that there is none
};

/// Looks for a packing into at most k bins by bin completion: the largest item left and a set of others that
/// fills its bin, least waste first, then the next bin. Sets that a better one can stand in for are left out
/// (dominance of Martello and Toth, 1990), and so is what L2 rules out or has failed before. `steps` counts
/// down the work, in items looked at, and ends the search at 0: no clock is involved. Deterministic. Korf,
/// 2003. Precondition: every item fits a bin alone.
[[nodiscard]] PackingSearchResult search_packing(BinItems items, BinLimits limits, std::int64_t k,
                                                 std::int64_t& steps);

}  // namespace evenkeel
