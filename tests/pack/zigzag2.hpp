#pragma once

#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel::test {

/// Two ranks of context parallelism that split sequences like Megatron.
inline constexpr CpGroup zigzag2{2, CpLayout::zigzag};

}  // namespace evenkeel::test
