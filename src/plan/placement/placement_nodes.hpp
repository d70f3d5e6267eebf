#pragma once

#include <cstdint>
#include <vector>

#include "plan/placement/placement.hpp"

namespace evenkeel {

/// The nodes where each DP rank has ranks, each once, ascending; none where nodes are not known.
[[nodiscard]] std::vector<std::vector<int>> nodes_of_dp_ranks(const PlacementInput& input, std::int64_t dp);

/// Throws InputError unless every piece has an owner and bytes, and items are runs of whole pieces.
void require_whole_pieces(const PlacementInput& input);

}  // namespace evenkeel
