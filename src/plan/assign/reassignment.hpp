#pragma once

#include <cstdint>
#include <span>

#include "plan/placement/placement.hpp"

namespace evenkeel {

/// What reassigning items may cost.
struct ReassignmentRules {
  std::int64_t tolerance = 0;  ///< in millionths of the largest part's time, which no part passes by more
  bool equal_counts = false;   ///< parts keep their numbers of items

  friend bool operator==(const ReassignmentRules&, const ReassignmentRules&) = default;
};

/// Reassigns items to the DP rank that holds most of their bytes, where balance lets it: alone, or in
/// exchange for one that is away from its own too, of nearly the same cost, best one that goes home in turn.
/// Largest first; an item that is at home stays there, so that bytes moved between DP ranks only fall, and so
/// does the weighted worth (best_placement) never. No part's cost over speed passes the largest of all parts
/// before by more than the tolerance. Where all costs and bytes are alike, items are one piece each and
/// counts stay, no other way moves fewer bytes.
///
/// Part r belongs to DP rank r. `costs`, and the lists of `input`, have an entry for every item that the
/// parts may name, more than these if need be. Items come out ascending. Deterministic, local on replicated
/// input; O(n log n) for items of few pieces. Throws InputError when lists differ in length, an item, rank or
/// DP rank is out of range, or the tolerance is negative.
///
/// Example: parts {0, 1} and {2, 3} with costs 5, 4, 5, 3, of which the second rank owns 0 and the first 2: 0
/// and 2 are exchanged, and nothing is less even.
[[nodiscard]] Partition reassign_to_owners(const Partition& parts, std::span<const Cost> costs,
                                           const PlacementInput& input, const ReassignmentRules& rules);

}  // namespace evenkeel
