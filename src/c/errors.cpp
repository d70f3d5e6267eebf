#include <string>
#include <utility>

#include "c/texts.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/c/base.h"

namespace {

/// The calling thread's last error. libevenkeel_mpi also sets it, with evenkeel_set_last_error().
struct LastError {
  evenkeel::ErrorReport report;
  std::string line;
};
thread_local LastError last_error;

}  // namespace

const char* evenkeel_version(void) {
  return EVENKEEL_VERSION;
}

void evenkeel_buffer_free(char* buffer) {
  delete[] buffer;
}

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
    case EVENKEEL_END_OF_SAMPLES:
      return "end of samples";
    default:
      return "unknown";
  }
}

const char* evenkeel_last_error_message(void) {
  return last_error.line.c_str();
}

const char* evenkeel_last_error_where(void) {
  return last_error.report.where.c_str();
}

const char* evenkeel_last_error_what(void) {
  return last_error.report.message.c_str();
}

const char* evenkeel_last_error_hint(void) {
  return last_error.report.hint.c_str();
}

int32_t evenkeel_last_error_rank(void) {
  return last_error.report.rank;
}

evenkeel_status evenkeel_set_last_error(evenkeel_status status, const char* where, const char* what,
                                        const char* hint, int32_t rank) {
  using evenkeel::c::text_or_empty;
  evenkeel::ErrorReport report;
  report.where = text_or_empty(where);
  report.message = text_or_empty(what);
  report.hint = text_or_empty(hint);
  report.rank = rank;
  std::string line = to_string(report);
  last_error = {std::move(report), std::move(line)};
  return status;
}
