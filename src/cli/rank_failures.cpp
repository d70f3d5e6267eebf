#include "cli/rank_failures.hpp"

#include <fmt/format.h>

#include <boost/mpi/environment.hpp>
#include <chrono>
#include <string>
#include <thread>

#include "base/printable.hpp"
#include "cli/failures.hpp"
#include "cli/terminal.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {

namespace {

// The exception being handled is this rank's alone, maybe.
int tell_and_abort(const boost::mpi::communicator& world) {
  const std::string on_rank = fmt::format(" (rank {})", world.rank());
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

}  // namespace

int tell_failure(const boost::mpi::communicator& world) {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const MpiError&) {
    return tell_and_abort(world);
  } catch (const Error& error) {
    // All ranks threw this together. One tells, the others wait until it has.
    if (world.rank() == 0) tell_error(error.what());
    world.barrier();
    return status_of(error);
  } catch (...) {
    return tell_and_abort(world);
  }
}

int tell_failure_beside_others(const boost::mpi::communicator& world) {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  try {
    throw;
  } catch (const MpiError&) {
    return tell_and_abort(world);
  } catch (const Error& error) {
    if (world.rank() == 0) {
      tell_error(error.what());
    } else {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    return status_of(error);
  } catch (...) {
    return tell_and_abort(world);
  }
}

}  // namespace evenkeel::cli
