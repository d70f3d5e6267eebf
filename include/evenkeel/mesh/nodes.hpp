#pragma once

#include <boost/mpi/communicator.hpp>
#include <vector>

namespace evenkeel {

/// The node of each rank of `comm`: the lowest rank that shares memory with it, so that equal numbers are one
/// node. Collective; the same answer on every rank.
[[nodiscard]] std::vector<int> nodes_of_ranks(const boost::mpi::communicator& comm);

}  // namespace evenkeel
