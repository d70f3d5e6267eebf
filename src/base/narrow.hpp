#pragma once

#include <concepts>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// The hint of errors about data of one step that exceeds what MPI can count.
inline constexpr std::string_view hint_for_large_steps =
    "Use fewer or shorter samples per step, or more ranks";

/// Converts an integer to a narrower type. In all builds, throws LimitError with `what` and the value if it
/// does not fit. Sizes are 64-bit integers internally; use this function if MPI counts or cu_seqlens require
/// 32 bits.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr To narrow(From value, std::string_view what, std::string_view hint = {}) {
  if (!std::in_range<To>(value)) {
    using Limits = std::numeric_limits<To>;
    const bool is_low = std::cmp_less(value, Limits::min());
    throw LimitError(std::string(what),
                     std::to_string(value) +
                         (is_low ? " is below the minimum of " : " is above the maximum of ") +
                         std::to_string(is_low ? Limits::min() : Limits::max()),
                     std::string(hint));
  }
  return static_cast<To>(value);
}

}  // namespace evenkeel
