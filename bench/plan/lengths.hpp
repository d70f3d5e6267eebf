#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace evenkeel::bench {

/// exp(mu + sigma z), rounded and clipped to [min, max], in tokens.
struct LogNormal {
  double mu = 7.5;
  double sigma = 1.0;
  std::int64_t min = 64;
  std::int64_t max = 32768;
};

/// Returns n lengths that depend only on the seed if C libraries agree on log and cos: the engine is defined
/// by the standard, and normal numbers are computed by the method of Box and Muller (1958), not by the
/// library's.
[[nodiscard]] std::vector<std::int64_t> made_up_lengths(std::size_t n, std::uint64_t seed,
                                                        const LogNormal& distribution = {});

/// Returns a random integer below `bound`, drawn without the library's distributions. Precondition: bound >=
/// 1.
[[nodiscard]] std::size_t draw_below(std::mt19937_64& engine, std::size_t bound);

}  // namespace evenkeel::bench
