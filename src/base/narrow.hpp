#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Converts an integer to a narrower type, or throws LimitError naming `what` and the value. Sizes are 64-bit
/// everywhere inside; this is the one way out to the 32-bit counts of MPI and of cu_seqlens. Always on.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr To narrow(From value, std::string_view what) {
  if (!std::in_range<To>(value)) {
    throw LimitError(std::string(what),
                     std::to_string(value) + " does not fit in " + std::to_string(8 * sizeof(To)) + " bits");
  }
  return static_cast<To>(value);
}

}  // namespace evenkeel
