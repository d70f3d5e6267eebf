#pragma once

#include <boost/mpi/communicator.hpp>

namespace evenkeel::cli {

/// tell_failure() on a rank of `world`. Errors that all ranks throw together are told once; what one rank has
/// alone ends the job, since others may wait for that rank. Precondition: called inside a catch block.
[[nodiscard]] int tell_failure(const boost::mpi::communicator& world);

}  // namespace evenkeel::cli
