#pragma once

#include <cstdint>

namespace evenkeel::testing_support {

/// With sanitizers, only one in this number of random problems is tested: sanitizers make tests ten times as
/// slow, and they detect the same errors in a subset. The number is prime, so all choices that cycle with the
/// number of the problem still occur.
#ifdef __SANITIZE_ADDRESS__
inline constexpr std::uint64_t one_in = 11;
#else
inline constexpr std::uint64_t one_in = 1;
#endif

}  // namespace evenkeel::testing_support
