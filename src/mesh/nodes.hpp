#pragma once

#include <boost/mpi/communicator.hpp>
#include <vector>

namespace evenkeel {

/// The ranks of `comm` that share memory with this one, in its order. Evenkeel's own; returns errors instead
/// of aborting. Collective.
[[nodiscard]] boost::mpi::communicator ranks_of_node(const boost::mpi::communicator& comm);

/// The node of each rank of `comm`: the lowest rank that shares memory with it, so that equal numbers are one
/// node. Collective; the same answer on every rank.
[[nodiscard]] std::vector<int> nodes_of_ranks(const boost::mpi::communicator& comm);

}  // namespace evenkeel
