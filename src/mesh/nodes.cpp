#include "evenkeel/mesh/nodes.hpp"

#include <boost/mpi/collectives.hpp>

#include "evenkeel/mesh/mpi_call.hpp"

namespace evenkeel {

boost::mpi::communicator ranks_of_node(const boost::mpi::communicator& comm) {
  MPI_Comm shared = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shared),
            "MPI_Comm_split_type");
  boost::mpi::communicator node(shared, boost::mpi::comm_take_ownership);
  check_mpi(MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return node;
}

std::vector<int> nodes_of_ranks(const boost::mpi::communicator& comm) {
  const boost::mpi::communicator node = ranks_of_node(comm);
  int lowest = comm.rank();
  boost::mpi::broadcast(node, lowest, 0);
  std::vector<int> nodes;
  boost::mpi::all_gather(comm, lowest, nodes);
  return nodes;
}

}  // namespace evenkeel
