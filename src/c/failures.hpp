#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/c/base.h"

namespace evenkeel::c {

/// An error that is possible in C but not in C++, such as NULL, a number that is not a dtype, or a negative
/// count. Collective calls report it to all ranks as an InputError.
class WrongArgument : public InputError {
 public:
  using InputError::InputError;
};

/// Throws WrongArgument if `pointer` is NULL. `name` is the name of the argument.
void require(const void* pointer, const char* name);
/// Throws WrongArgument unless 0 <= index < count. `what` names the elements, such as "micro-batches".
void require_index(std::int64_t index, std::int64_t count, const char* name, const char* what);
/// Throws WrongArgument if `count` is negative or too large for any array, or if `first` is NULL and `count`
/// is not 0.
void require_list(const void* first, std::int64_t count, const char* name);

/// Returns the error with this status that C code stored as this thread's last error. Throws WrongArgument if
/// `status` is not an error or is EVENKEEL_ERROR_INTERNAL.
[[nodiscard]] ErrorReport report_of_status(evenkeel_status status);

/// Stores the exception being handled as the thread's last error, and returns the status for the exception.
evenkeel_status record_current_exception() noexcept;

/// Runs the body of a C function, and converts exceptions to a status, since they must not reach C code.
template <typename Work>
evenkeel_status run_guarded(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return EVENKEEL_OK;
  } catch (...) {
    return record_current_exception();
  }
}

/// Sets *handle to the new object that make() returns, or to null if make() throws.
template <typename Handle, typename Make>
evenkeel_status create_handle(Handle** handle, const char* name, Make make) noexcept {
  return run_guarded([&] {
    require(handle, name);
    *handle = nullptr;
    *handle = make();
  });
}

}  // namespace evenkeel::c
