#pragma once

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// Exclusive upper limit on costs and on sums of costs. The sum and the difference of two values below this
/// limit fit in 64 bits.
inline constexpr Cost sum_limit = Cost{1} << 62;

}  // namespace evenkeel
