#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace evenkeel {

/// Returns a random permutation of positions 0..n-1 that depends only on the seed and the numbers that
/// identify the draw (an epoch, a step, a rank). It is the same on every rank, platform and standard library.
/// O(n).
std::vector<std::int64_t> seeded_order(std::int64_t n, std::uint64_t seed,
                                       std::initializer_list<std::uint64_t> draw);

}  // namespace evenkeel
