#include "cli/rank_failures.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <boost/mpi/environment.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "base/activity.hpp"
#include "base/printable.hpp"
#include "cli/failures.hpp"
#include "cli/terminal.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "mesh/fail_together.hpp"
#include "mesh/mpi_call.hpp"

namespace evenkeel::cli {
namespace {

// The exception being handled is this rank's alone, maybe.
int tell_and_abort() {
  const std::string on_rank =
      fmt::format(" (rank {})", boost::mpi::communicator().rank());  // as mpirun counts
  try {
    throw;
  } catch (const MpiError& error) {
    tell_error(error.what() + on_rank);
  } catch (...) {
    tell_error(printable(text_of_foreign_exception()) + on_rank);
  }
  boost::mpi::environment::abort(failed);
  return failed;
}

// What all ranks threw together one of them tells; `wait_for_it` lets the others stay until it has.
int tell_once(const boost::mpi::communicator& world, const std::function<void()>& wait_for_it) {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const Error& error) {
    if (is_alone(error.report())) return tell_and_abort();
    if (world.rank() == 0) tell_error(error.what());
    wait_for_it();
    return status_of(error);
  } catch (...) {
    return tell_and_abort();
  }
}

}  // namespace

int tell_failure(const boost::mpi::communicator& world) {
  return tell_once(world, [&] {
    const Phase phase("tell an error");
    const Waiting waiting("MPI_Barrier");
    world.barrier();
  });
}

int tell_failure_beside_others(const boost::mpi::communicator& world) {
  return tell_once(world, [&] {
    if (world.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
  });
}

int finalize_mpi(int status) {
  try {
    check_mpi(MPI_Finalize(), "MPI_Finalize");
    return status;
  } catch (const MpiError&) {
    return tell_and_abort();
  }
}

}  // namespace evenkeel::cli
