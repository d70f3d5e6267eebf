#pragma once

#include <boost/mpi/communicator.hpp>
#include <functional>

namespace evenkeel::cli {

/// Runs `work` and returns the exit status: 0, or 1 after telling the error once. Collective over `world`,
/// all of the program's ranks; `work` throws Evenkeel's errors on every rank together. A rank that fails
/// alone (a failed MPI call, a bug) ends the others.
///
/// What is to be destroyed while other ranks may still be at work must outlive the call.
[[nodiscard]] int run_on_ranks(const boost::mpi::communicator& world, const std::function<void()>& work);

}  // namespace evenkeel::cli
