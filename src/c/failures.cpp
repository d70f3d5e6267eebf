#include "c/failures.hpp"

#include <array>
#include <cstddef>
#include <exception>
#include <limits>
#include <new>
#include <system_error>

namespace evenkeel::c {
namespace {

evenkeel_status status_of(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::config:
      return EVENKEEL_ERROR_CONFIG;
    case ErrorKind::input:
      return EVENKEEL_ERROR_INPUT;
    case ErrorKind::limit:
      return EVENKEEL_ERROR_LIMIT;
    case ErrorKind::mesh:
      return EVENKEEL_ERROR_MESH;
    case ErrorKind::io:
      return EVENKEEL_ERROR_IO;
    case ErrorKind::mpi:
      return EVENKEEL_ERROR_MPI;
    case ErrorKind::end:
      return EVENKEEL_END_OF_SAMPLES;
    case ErrorKind::none:
      break;
  }
  return EVENKEEL_ERROR_INTERNAL;
}

evenkeel_status status_of_current_exception() noexcept {
  try {
    throw;
  } catch (const WrongArgument&) {
    return EVENKEEL_ERROR_ARGUMENT;
  } catch (const Error& error) {
    return status_of(error.report().kind);
  } catch (const std::bad_alloc&) {
    return EVENKEEL_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return EVENKEEL_ERROR_INTERNAL;
  }
}

ErrorReport report_of_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return error.report();
  } catch (const std::bad_alloc&) {
    return {ErrorKind::limit, "", "out of memory",
            "If samples take most of the memory, use fewer or shorter ones", -1};
  } catch (const std::system_error& error) {
    return {ErrorKind::none, "evenkeel", error.what(),
            "If this is not a limit of the system, such as that on threads (ulimit -u), it is a bug in "
            "Evenkeel: please report it",
            -1};
  } catch (const std::exception& error) {
    return {ErrorKind::none, "evenkeel", error.what(), "This is a bug in Evenkeel: please report it", -1};
  } catch (...) {
    return {ErrorKind::none, "evenkeel", "an exception without a message",
            "This is a bug in Evenkeel: please report it", -1};
  }
}

}  // namespace

void require(const void* pointer, const char* name) {
  if (pointer != nullptr) return;
  throw WrongArgument(std::string("argument ") + name, "is NULL");
}

void require_index(std::int64_t index, std::int64_t count, const char* name, const char* what) {
  if (index >= 0 && index < count) return;
  throw WrongArgument(std::string("argument ") + name,
                      "is " + std::to_string(index) +
                          (count > 0 ? "; it must be from 0 to " + std::to_string(count - 1)
                                     : std::string(", but there are no ") + what));
}

void require_list(const void* first, std::int64_t count, const char* name) {
  // With up to 64 bytes per element, the number of bytes fits in an int64.
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 64;
  if (count < 0 || count > most)
    throw WrongArgument(std::string("argument ") + name,
                        "cannot have " + std::to_string(count) + " elements");
  if (count > 0) require(first, name);
}

ErrorReport report_of_status(evenkeel_status status) {
  constexpr std::array kinds{ErrorKind::config, ErrorKind::input, ErrorKind::limit, ErrorKind::mesh,
                             ErrorKind::io,     ErrorKind::mpi,   ErrorKind::limit, ErrorKind::input};
  const bool is_end = status == EVENKEEL_END_OF_SAMPLES;
  if (!is_end && (status < EVENKEEL_ERROR_CONFIG || status > EVENKEEL_ERROR_ARGUMENT))
    throw WrongArgument("argument status",
                        "is " + std::to_string(status) +
                            "; it must be from EVENKEEL_ERROR_CONFIG to EVENKEEL_ERROR_ARGUMENT, or "
                            "EVENKEEL_END_OF_SAMPLES");
  return {is_end ? ErrorKind::end : kinds[static_cast<std::size_t>(status) - 1], evenkeel_last_error_where(),
          evenkeel_last_error_what(), evenkeel_last_error_hint(), -1};
}

evenkeel_status record_current_exception() noexcept {
  const ErrorReport report = report_of_current_exception();
  return evenkeel_set_last_error(status_of_current_exception(), report.where.c_str(), report.message.c_str(),
                                 report.hint.c_str(), report.rank);
}

}  // namespace evenkeel::c
