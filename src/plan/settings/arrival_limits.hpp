#pragma once

#include <cstdint>

namespace evenkeel {

/// Most samples of a group that arrives, and most steps to look ahead when one is formed.
inline constexpr std::int64_t most_in_group = 4096;
inline constexpr std::int64_t most_ahead = 64;

}  // namespace evenkeel
