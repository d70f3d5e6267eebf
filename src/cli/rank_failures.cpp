#include "cli/rank_failures.hpp"

#include <fmt/format.h>

#include <boost/mpi/environment.hpp>
#include <string>

#include "base/printable.hpp"
#include "cli/failures.hpp"
#include "cli/terminal.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {

int tell_failure(const boost::mpi::communicator& world) {
  EVENKEEL_PRECONDITION(cheap, std::current_exception() != nullptr);
  const std::string on_rank = fmt::format(" (rank {})", world.rank());
  try {
    throw;
  } catch (const MpiError& error) {
    tell_error(error.what() + on_rank);
  } catch (const Error& error) {
    // All ranks threw this together. One tells, the others wait until it has.
    if (world.rank() == 0) tell_error(error.what());
    world.barrier();
    return status_of(error);
  } catch (...) {
    tell_error(printable(text_of_foreign_exception()) + on_rank);
  }
  boost::mpi::environment::abort(failed);
  return failed;
}

}  // namespace evenkeel::cli
