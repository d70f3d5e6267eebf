#include "cli/failures.hpp"

#include <fmt/format.h>

#include <boost/mpi/environment.hpp>
#include <new>
#include <stdexcept>
#include <string>

#include "cli/terminal.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/base/printable.hpp"

namespace evenkeel::cli {
namespace {

int status_of(const Error& error) {
  return error.report().kind == ErrorKind::config ? wrong_use : failed;
}

constexpr const char* out_of_memory =
    "out of memory: this needs more than the machine gives. Use fewer or shorter samples, a smaller batch or "
    "fewer ranks";

/// What is wrong with an exception that is not Evenkeel's. Precondition: called inside a catch block.
std::string text_of_foreign_exception() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return out_of_memory;
  } catch (const std::length_error&) {  // a container was asked for more than there are addresses
    return out_of_memory;
  } catch (const std::exception& error) {
    return std::string("internal error: ") + error.what() + ". Please report it";
  } catch (...) {
    return "internal error of unknown kind. Please report it";
  }
}

}  // namespace

int tell_failure() {
  try {
    throw;
  } catch (const Error& error) {
    tell_error(error.what());
    return status_of(error);
  } catch (...) {
    tell_error(printable(text_of_foreign_exception()));
    return failed;
  }
}

int tell_failure(const boost::mpi::communicator& world) {
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
