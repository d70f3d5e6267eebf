#include "cli/rank_failures.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <boost/mpi/environment.hpp>
#include <boost/mpi/exception.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "base/activity.hpp"
#include "base/utf8.hpp"
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

// The others wait until the first rank has printed the error, since a launcher may end it once one of them
// has left.
void wait_until_told(const boost::mpi::communicator& world) {
  try {
    const Phase phase("tell an error");
    const Waiting waiting("MPI_Barrier");
    world.barrier();
  } catch (const boost::mpi::exception&) {
    // MPI fails, for example because memory lacks. The others wait for this rank, and the first one tells the
    // error.
    if (world.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    boost::mpi::environment::abort(failed);
  }
}

// Once one rank has left with an error, a launcher such as srun terminates the others, which are about to
// leave with the same one: the job would end as they do, killed by a signal.
void ignore_terminations() {
  std::signal(SIGTERM, SIG_IGN);
}

}  // namespace

int tell_failure(const boost::mpi::communicator& world) {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const Error& error) {
    if (is_alone(error.report())) return tell_and_abort();
    if (world.rank() == 0) tell_error(error.what());
    wait_until_told(world);
    return status_of(error);
  } catch (...) {
    return tell_and_abort();
  }
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
