#pragma once

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// Costs and their sums stay below this, so that the difference and the sum of any two of them fit in 64
/// bits.
inline constexpr Cost sum_limit = Cost{1} << 62;

}  // namespace evenkeel
