#pragma once

#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel::test {

/// Two ranks of context parallelism, as Megatron cuts sequences for them.
inline constexpr CpGroup zigzag2{2, CpLayout::zigzag};

}  // namespace evenkeel::test
