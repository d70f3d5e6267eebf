#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Converts an integer to a narrower type. In all builds, throws LimitError with `what` and the value if it
/// does not fit. Sizes are 64-bit integers internally; use this function if MPI counts or cu_seqlens require
/// 32 bits.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr To narrow(From value, std::string_view what) {
  if (!std::in_range<To>(value)) {
    throw LimitError(std::string(what),
                     std::to_string(value) + " does not fit in " + std::to_string(8 * sizeof(To)) + " bits");
  }
  return static_cast<To>(value);
}

}  // namespace evenkeel
