#pragma once

#include <vector>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// Returns the node of each rank of `comm`. A node consists of ranks that share memory, and is identified by
/// its lowest rank. Collective; equal on every rank.
[[nodiscard]] std::vector<int> nodes_of_ranks(const Communicator& comm);

}  // namespace evenkeel
