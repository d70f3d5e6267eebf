#include "mesh/new_communicator.hpp"

#include <memory>

#include "mesh/mpi_call.hpp"

namespace evenkeel {

void NewCommunicator::return_errors() const {
  check_mpi(MPI_Comm_set_errhandler(*this, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

void NewCommunicator::Free::operator()(MPI_Comm* comm) const noexcept {
  const std::unique_ptr<MPI_Comm> handle(comm);
  int finalized = 0;
  if (*handle == MPI_COMM_NULL || MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
  MPI_Comm_free(handle.get());
}

}  // namespace evenkeel
