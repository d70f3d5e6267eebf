#include "mesh/nodes.hpp"

#include <mpi.h>

#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"
#include "mesh/new_communicator.hpp"

namespace evenkeel {

boost::mpi::communicator ranks_of_node(const boost::mpi::communicator& comm) {
  NewCommunicator node = together(comm, [] { return NewCommunicator(); });
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node.place()),
            "MPI_Comm_split_type");
  node.return_errors();
  return node;
}

std::vector<int> nodes_of_ranks(const boost::mpi::communicator& comm) {
  const boost::mpi::communicator node = ranks_of_node(comm);
  std::vector<int> nodes =
      together(comm, [&] { return std::vector<int>(static_cast<std::size_t>(comm.size())); });
  int lowest = comm.rank();
  check_mpi(MPI_Bcast(&lowest, 1, MPI_INT, 0, node), "MPI_Bcast");
  check_mpi(MPI_Allgather(&lowest, 1, MPI_INT, nodes.data(), 1, MPI_INT, comm), "MPI_Allgather");
  return nodes;
}

}  // namespace evenkeel
