#pragma once

#include <boost/mpi/communicator.hpp>

namespace evenkeel::cli {

/// tell_failure() on a rank of `world`. Errors that all ranks throw together are told once; what one rank has
/// alone ends the job, since others may wait for that rank; so does an MPI error while it is told.
/// Precondition: called inside a catch block.
[[nodiscard]] int tell_failure(const boost::mpi::communicator& world);

/// Ends MPI. Returns `status`, or tells the error that this rank has with it, unless another one was told.
/// Where `status` is an error's, SIGTERM is ignored from here on, so that this rank ends with it, too.
[[nodiscard]] int finalize_mpi(int status);

}  // namespace evenkeel::cli
