#pragma once

#include <cstdint>

namespace evenkeel::testing_support {

/// Only one in this many random problems is tested. Sanitizers make tests ten times as slow, and
/// what they detect occurs in a subset as well as in all problems. A prime, so that choices that cycle with
/// the number of the problem all occur.
#ifdef __SANITIZE_ADDRESS__
inline constexpr std::uint64_t one_in = 11;
#else
inline constexpr std::uint64_t one_in = 1;
#endif

}  // namespace evenkeel::testing_support
