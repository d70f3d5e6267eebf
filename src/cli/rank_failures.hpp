#pragma once

#include <boost/mpi/communicator.hpp>

namespace evenkeel::cli {

/// Reports the exception being handled on a rank of `world`, like report_failure(). Errors that all ranks
/// throw together are printed only once. An error that occurs only on one rank aborts the job, since other
/// ranks may be waiting for that rank. An MPI error during the report also aborts the job. Precondition:
/// called inside a catch block.
[[nodiscard]] int report_failure(const boost::mpi::communicator& world);

/// Ends MPI and returns `status`. If MPI fails here, aborts the job, and prints MPI's error if `status` is 0;
/// otherwise, an earlier error has already been printed. If `status` is not 0, ignores SIGTERM from now on,
/// so that this rank still exits with `status` if a launcher terminates it after another rank has exited.
[[nodiscard]] int finalize_mpi(int status);

}  // namespace evenkeel::cli
