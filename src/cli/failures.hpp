#pragma once

#include <boost/mpi/communicator.hpp>

namespace evenkeel::cli {

/// Exit statuses beside 0: the command line or the configuration is wrong; or the work failed.
inline constexpr int wrong_use = 2;
inline constexpr int failed = 1;

/// Tells the exception being handled in one line and returns the exit status. Precondition: called inside a
/// catch block.
[[nodiscard]] int tell_failure();

/// The same on a rank of `world`. Errors that all ranks throw together are told once; what one rank has alone
/// ends the job, since others may wait for that rank.
[[nodiscard]] int tell_failure(const boost::mpi::communicator& world);

}  // namespace evenkeel::cli
