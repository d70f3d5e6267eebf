#pragma once

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// Upper limit of costs and of their sums. The sum and the difference of two values below it fit in 64 bits.
inline constexpr Cost sum_limit = Cost{1} << 62;

}  // namespace evenkeel
