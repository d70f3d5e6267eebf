#include "c/failures.hpp"

#include <boost/mpi/exception.hpp>
#include <exception>
#include <limits>
#include <new>

#include "mesh/fail_together.hpp"

namespace evenkeel::c {
namespace {

/// The last error of a thread, in texts that calls of C can point to.
struct LastError {
  std::string line;
  std::string where;
  std::string what;
  std::string hint;
  std::int32_t rank = -1;
  bool has_texts = true;  // else there was no memory for them

  void keep(const ErrorReport& report) {
    line = to_string(report);
    where = report.where;
    what = report.message;
    hint = report.hint;
    rank = report.rank;
    has_texts = true;
  }
};

thread_local LastError last_error;

constexpr const char* without_texts = "out of memory, also for the text of an error";

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
  report.hint = "This is an error of the library itself: please report it";
  return report;
}

const char* text_of(const std::string& text, const char* otherwise) noexcept {
  return last_error.has_texts ? text.c_str() : otherwise;
}

}  // namespace

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
  try {
    last_error.keep(report_of_current_exception(status));
  } catch (...) {
    last_error.has_texts = false;
    last_error.rank = -1;
  }
  return status;
}

}  // namespace evenkeel::c

using evenkeel::c::last_error;
using evenkeel::c::text_of;
using evenkeel::c::without_texts;

const char* evenkeel_status_name(evenkeel_status status) {
  switch (status) {
    case EVENKEEL_OK:
      return "ok";
    case EVENKEEL_ERROR_CONFIG:
      return "config";
    case EVENKEEL_ERROR_INPUT:
      return "input";
    case EVENKEEL_ERROR_LIMIT:
      return "limit";
    case EVENKEEL_ERROR_MESH:
      return "mesh";
    case EVENKEEL_ERROR_IO:
      return "io";
    case EVENKEEL_ERROR_MPI:
      return "mpi";
    case EVENKEEL_ERROR_OUT_OF_MEMORY:
      return "out of memory";
    case EVENKEEL_ERROR_ARGUMENT:
      return "argument";
    case EVENKEEL_ERROR_INTERNAL:
      return "internal";
    default:
      return "unknown";
  }
}

const char* evenkeel_last_error_message(void) {
  return text_of(last_error.line, without_texts);
}
const char* evenkeel_last_error_where(void) {
  return text_of(last_error.where, "");
}
const char* evenkeel_last_error_what(void) {
  return text_of(last_error.what, without_texts);
}
const char* evenkeel_last_error_hint(void) {
  return text_of(last_error.hint, "");
}
int32_t evenkeel_last_error_rank(void) {
  return last_error.rank;
}
