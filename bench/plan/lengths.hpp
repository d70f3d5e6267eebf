#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace evenkeel::bench {

/// exp(mu + sigma z), rounded, cut to [min, max], in tokens.
struct LogNormal {
  double mu = 7.5;
  double sigma = 1.0;
  std::int64_t min = 64;
  std::int64_t max = 32768;
};

/// n lengths, the same for a seed wherever the C library agrees on log and cos: the engine is fixed by the
/// standard, and normal numbers come from it by Box and Muller's method (1958), not by the library's.
[[nodiscard]] std::vector<std::int64_t> made_up_lengths(std::size_t n, std::uint64_t seed,
                                                        const LogNormal& distribution = {});

/// A whole number below `bound`, drawn without the library's distributions. Precondition: bound >= 1.
[[nodiscard]] std::size_t draw_below(std::mt19937_64& engine, std::size_t bound);

}  // namespace evenkeel::bench
