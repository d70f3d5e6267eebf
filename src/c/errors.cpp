#include "c/failures.hpp"

using evenkeel::c::last_error;

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
  return last_error().line.c_str();
}

const char* evenkeel_last_error_where(void) {
  return last_error().report.where.c_str();
}

const char* evenkeel_last_error_what(void) {
  return last_error().report.message.c_str();
}

const char* evenkeel_last_error_hint(void) {
  return last_error().report.hint.c_str();
}

int32_t evenkeel_last_error_rank(void) {
  return last_error().report.rank;
}
