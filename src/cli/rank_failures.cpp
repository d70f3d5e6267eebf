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

// Prints the exception being handled, which may have occurred only on this rank, and aborts the job.
int report_and_abort() {
  const std::string on_rank =
      fmt::format(" (rank {})", boost::mpi::communicator().rank());  // rank number as used by mpirun
  try {
    throw;
  } catch (const MpiError& error) {
    print_error(error.what() + on_rank);
  } catch (...) {
    print_error(printable(describe_foreign_exception()) + on_rank);
  }
  boost::mpi::environment::abort(failed);
  return failed;
}

// Waits until the first rank has printed the error. A launcher may end the first rank as soon as another one
// has exited.
void wait_until_reported(const boost::mpi::communicator& world) {
  try {
    const Phase phase("report an error");
    const Waiting waiting("MPI_Barrier");
    world.barrier();
  } catch (const boost::mpi::exception&) {
    // MPI failed, for example for lack of memory. Other ranks wait for this one, so the job is aborted. The
    // delay gives the first rank time to print the error.
    if (world.rank() != 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    boost::mpi::environment::abort(failed);
  }
}

// Ignores SIGTERM. After one rank has exited with an error, a launcher such as srun terminates the others,
// which are about to exit with the same error. Without this, the job would seem to have been killed by a
// signal.
void ignore_termination_signals() {
  std::signal(SIGTERM, SIG_IGN);
}

}  // namespace

int report_failure(const boost::mpi::communicator& world) {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const Error& error) {
    if (is_only_on_this_rank(error.report())) return report_and_abort();
    if (world.rank() == 0) print_error(error.what());
    wait_until_reported(world);
    return status_of(error);
  } catch (...) {
    return report_and_abort();
  }
}

int finalize_mpi(int status) {
  if (status != 0) ignore_termination_signals();
  try {
    check_mpi(MPI_Finalize(), "MPI_Finalize");
    return status;
  } catch (const MpiError&) {
    if (status == 0) return report_and_abort();
    boost::mpi::environment::abort(status);  // the first error has already been printed
    return status;
  }
}

}  // namespace evenkeel::cli
