#include "c/failures.hpp"

#include <boost/mpi/exception.hpp>
#include <exception>
#include <limits>
#include <new>

#include "mesh/fail_together.hpp"

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
  } catch (const boost::mpi::exception&) {
    return EVENKEEL_ERROR_MPI;
  } catch (const std::bad_alloc&) {
    return EVENKEEL_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return EVENKEEL_ERROR_INTERNAL;
  }
}

ErrorReport report_of_current_exception(evenkeel_status status) {
  ErrorReport report = report_current_exception();
  if (status != EVENKEEL_ERROR_INTERNAL) return report;
  report.where = "evenkeel";
  report.hint = "This is a bug in Evenkeel: please report it";
  return report;
}

}  // namespace

LastError& last_error() noexcept {
  thread_local LastError kept;
  return kept;
}

void require(const void* pointer, const char* name) {
  if (pointer != nullptr) return;
  throw WrongArgument(std::string("argument ") + name, "is NULL");
}

void require_index(std::int64_t index, std::int64_t count, const char* name, const char* what) {
  if (index >= 0 && index < count) return;
  throw WrongArgument(std::string("argument ") + name,
                      "is " + std::to_string(index) + "; there are " + std::to_string(count) + " " + what);
}

void require_list(const void* first, std::int64_t count, const char* name) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 64;  // of what takes so many bytes
  if (count < 0 || count > most)
    throw WrongArgument(std::string("argument ") + name, std::to_string(count) + " of them cannot be");
  if (count > 0) require(first, name);
}

evenkeel_status note_current_exception() noexcept {
  const evenkeel_status status = status_of_current_exception();
  ErrorReport report = report_of_current_exception(status);
  std::string line = to_string(report);
  last_error() = {std::move(report), std::move(line)};
  return status;
}

}  // namespace evenkeel::c
