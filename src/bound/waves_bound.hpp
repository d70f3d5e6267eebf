#pragma once

#include "balance/context/schedule.hpp"

namespace evenkeel::context {

/// No schedule ends before where ranks meet at every micro-batch: in waves each of which lasts as long as its
/// longest micro-batch. Not below lower_bound, and above it where long items need high waves that
/// short ones cannot fill, since a rank holds no more than max_size tokens in a wave.
///
/// docs/bounds.md has the proof: prices of tokens, ways to share out the longest items among waves
/// (sets.hpp), and branch and bound over the heights of the highest waves (heights.hpp) with the dual of a
/// linear program (prices.hpp). Precondition: require_fits passes. Deterministic and local; integers
/// only, but for prices. O(items * log(items)), and up to some 100 milliseconds more for many long items.
[[nodiscard]] Cost waves_lower_bound(const Problem& problem);

}  // namespace evenkeel::context
