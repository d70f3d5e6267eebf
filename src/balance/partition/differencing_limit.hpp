#pragma once

#include <cstdint>

namespace evenkeel {

/// Free differencing is O(n k) at worst, seconds for more groups than this.
inline constexpr std::int64_t most_differenced_groups = 1 << 14;

}  // namespace evenkeel
