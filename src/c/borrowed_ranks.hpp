#pragma once

#include <mpi.h>

#include <boost/mpi/communicator.hpp>
#include <boost/shared_ptr.hpp>

namespace evenkeel::c {

/// The caller's ranks as long as `comm` lives, for errors: does not allocate.
class BorrowedRanks : public boost::mpi::communicator {
 public:
  explicit BorrowedRanks(MPI_Comm& comm) : communicator(MPI_COMM_NULL, boost::mpi::comm_attach) {
    if (comm != MPI_COMM_NULL) comm_ptr = boost::shared_ptr<MPI_Comm>(boost::shared_ptr<void>(), &comm);
  }
};

}  // namespace evenkeel::c
