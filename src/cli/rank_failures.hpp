#pragma once

#include <boost/mpi/communicator.hpp>

namespace evenkeel::cli {

/// Reports the exception being handled, as report_failure() does, on a rank of `world`. Errors that all ranks
/// throw together are printed once. An error that occurs only on one rank ends the job, since others may be
/// waiting for that rank; so does an MPI error while an error is reported. Precondition: called inside a
/// catch block.
[[nodiscard]] int report_failure(const boost::mpi::communicator& world);

/// Ends MPI and returns `status`. If MPI fails here, aborts the job, and prints MPI's error if `status` is 0;
/// otherwise, an earlier error has already been printed. If `status` is not 0, ignores SIGTERM from here on,
/// so that this rank still exits with `status` if a launcher terminates it because another rank has exited
/// first.
[[nodiscard]] int finalize_mpi(int status);

}  // namespace evenkeel::cli
