#pragma once

#include <cstdint>

namespace evenkeel::testing_support {

/// Of many random problems, one in so many is tried. Sanitizers take ten times as long, and what they look
/// for shows on some of the problems as well as on all. A prime, so that choices that go round with the
/// number of the problem all come up.
#ifdef __SANITIZE_ADDRESS__
inline constexpr std::uint64_t one_in = 11;
#else
inline constexpr std::uint64_t one_in = 1;
#endif

}  // namespace evenkeel::testing_support
