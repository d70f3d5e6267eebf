#pragma once

#include <vector>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// The node of each rank of `comm`: the lowest rank that shares memory with it, so that equal numbers are one
/// node. Collective; the same answer on every rank.
[[nodiscard]] std::vector<int> nodes_of_ranks(const Communicator& comm);

}  // namespace evenkeel
