#include "bench/plan/lengths.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel::bench {
namespace {

/// Uniform in (0, 1].
double unit(std::mt19937_64& engine) {
  return static_cast<double>((engine() >> 11) + 1) * 0x1p-53;
}

}  // namespace

std::vector<std::int64_t> made_up_lengths(std::size_t n, std::uint64_t seed, const LogNormal& distribution) {
  std::mt19937_64 engine(seed);
  std::vector<std::int64_t> lengths(n);
  for (std::int64_t& length : lengths) {
    const double radius = std::sqrt(-2 * std::log(unit(engine)));
    const double z = radius * std::cos(2 * std::numbers::pi * unit(engine));
    const double tokens = std::round(std::exp(distribution.mu + distribution.sigma * z));
    length = static_cast<std::int64_t>(
        std::clamp(tokens, static_cast<double>(distribution.min), static_cast<double>(distribution.max)));
  }
  return lengths;
}

std::size_t draw_below(std::mt19937_64& engine, std::size_t bound) {
  EVENKEEL_PRECONDITION(cheap, bound >= 1, bound);
  return static_cast<std::size_t>(engine() % bound);
}

}  // namespace evenkeel::bench
