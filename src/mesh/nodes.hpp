#pragma once

#include <vector>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// Returns the node of each rank of `comm`. A node is identified by the lowest of its ranks, which share
/// memory. Collective; equal on every rank.
[[nodiscard]] std::vector<int> nodes_of_ranks(const Communicator& comm);

}  // namespace evenkeel
