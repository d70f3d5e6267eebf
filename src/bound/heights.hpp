#pragma once

#include "balance/context/levels.hpp"
#include "balance/context/long_items.hpp"

namespace evenkeel::context {

/// No schedule of waves ends before this, nor before `at_least`: heights of the highest waves are told apart,
/// the least promising ones first, and WavePrices says of each how late it ends. (Branch and bound, Land and
/// Doig, 1960.) Precondition: all ranks are equally fast. Bounded by counts, never by a clock.
[[nodiscard]] Cost bound_over_wave_heights(const Levels& levels, const LongItems& long_items, Cost at_least);

}  // namespace evenkeel::context
