#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "evenkeel/c/evenkeel.h"

namespace evenkeel::c {

/// What a C caller can get wrong and a C++ caller cannot: NULL, a number that is no dtype, a negative count.
/// A collective call tells it to all ranks, as the InputError that it is too.
class WrongArgument : public InputError {
 public:
  using InputError::InputError;
};

/// Throws WrongArgument for NULL. `name` is the argument's.
void require(const void* pointer, const char* name);
/// Throws WrongArgument unless 0 <= index < count. `what` is in words, such as "micro-batches".
void require_index(std::int64_t index, std::int64_t count, const char* name, const char* what);
/// Throws WrongArgument for a negative count, one that no array can have, and for NULL unless the count is 0.
void require_list(const void* first, std::int64_t count, const char* name);

/// The last error of the calling thread.
struct LastError {
  ErrorReport report;
  std::string line;
};
[[nodiscard]] LastError& last_error() noexcept;

/// Keeps the exception being handled as the thread's last error.
evenkeel_status note_current_exception() noexcept;

/// The barrier that no exception crosses: runs what a function does, and makes a status of what it throws.
template <typename Work>
evenkeel_status guarded(Work&& work) noexcept {
  try {
    std::forward<Work>(work)();
    return EVENKEEL_OK;
  } catch (...) {
    return note_current_exception();
  }
}

}  // namespace evenkeel::c
