#include "cli/rank_failures.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <boost/mpi/environment.hpp>
#include <boost/mpi/exception.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "base/activity.hpp"
#include "base/printable.hpp"
#include "cli/failures.hpp"
#include "cli/terminal/terminal.hpp"
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

// To the first rank.
void give_time_to_tell(const boost::mpi::communicator& world) {
  if (world.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
}

// Once one rank has left with an error, a launcher such as srun terminates the others, which are about to
// leave with the same one: the job would end as they do, killed by a signal.
void ignore_terminations() {
  std::signal(SIGTERM, SIG_IGN);
}

}  // namespace

int tell_failure(const boost::mpi::communicator& world) {
  return tell_once(world, [&] {
    try {
      const Phase phase("tell an error");
      const Waiting waiting("MPI_Barrier");
      world.barrier();
    } catch (const boost::mpi::exception&) {
      // As where memory lacks. The others wait for this rank, and one of them tells all that there is to
      // tell.
      give_time_to_tell(world);
      boost::mpi::environment::abort(failed);
    }
  });
}

int tell_failure_beside_others(const boost::mpi::communicator& world) {
  return tell_once(world, [&] { give_time_to_tell(world); });
}

int finalize_mpi(int status) {
  if (status != 0) ignore_terminations();
  try {
    check_mpi(MPI_Finalize(), "MPI_Finalize");
    return status;
  } catch (const MpiError&) {
    if (status == 0) return tell_and_abort();
    boost::mpi::environment::abort(status);  // what went wrong first has been told
    return status;
  }
}

}  // namespace evenkeel::cli
