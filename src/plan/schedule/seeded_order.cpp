#include "plan/schedule/seeded_order.hpp"

#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace evenkeel {
namespace {

// Returns an unbiased random number in [0, bound). Uses only the engine, since std::uniform_int_distribution
// and std::shuffle may differ between standard libraries.
std::uint64_t random_below(std::uint64_t bound, std::mt19937_64& engine) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t last_whole_range = most - most % bound;
  std::uint64_t drawn = engine();
  while (drawn >= last_whole_range) drawn = engine();
  return drawn % bound;
}

}  // namespace

std::vector<std::int64_t> seeded_order(std::int64_t n, std::uint64_t seed,
                                       std::initializer_list<std::uint64_t> draw) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::vector<std::uint64_t> words{seed >> 32, seed & 0xffffffff};
  words.insert(words.end(), draw.begin(), draw.end());
  std::seed_seq seeds(words.begin(), words.end());
  std::mt19937_64 engine(seeds);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_below(i, engine)]);
  return order;
}

}  // namespace evenkeel
