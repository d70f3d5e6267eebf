#include "balance/context/speeds.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace evenkeel::context {
namespace {

/// Type of products of times and speeds, which may exceed 64 bits.
__extension__ using Wide = __int128;

Wide wide_ceil_div(Wide value, Wide divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

}  // namespace

Speeds::Speeds(std::span<const std::int64_t> speeds, std::int64_t ranks, std::span<const std::int64_t> sizes)
    : sum_(ranks), sizes_(sizes.begin(), sizes.end()) {
  if (std::ranges::adjacent_find(speeds, std::not_equal_to{}) == speeds.end()) return;
  fastest_ = std::ranges::max(speeds);
  sum_ = std::accumulate(speeds.begin(), speeds.end(), std::int64_t{0});
  for (const std::int64_t size : sizes_) levels_.push_back(make_level(speeds, size));
}

Speeds::Level Speeds::make_level(std::span<const std::int64_t> speeds, std::int64_t size) {
  Level level;
  for (std::int64_t first = 0; first + size <= std::ssize(speeds); first += size) {
    const auto block = speeds.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
    const std::int64_t least = std::ranges::min(block);
    const std::int64_t sum = std::accumulate(block.begin(), block.end(), std::int64_t{0});
    level.slowest.push_back(least);
    level.sum.push_back(sum);
    level.best = std::max(level.best, least);
    if (level.even_sum == 0 || Wide{sum} * level.even_slowest < Wide{level.even_sum} * least) {
      level.even_sum = sum;
      level.even_slowest = least;
    }
  }
  level.fastest_first.resize(level.slowest.size());
  std::iota(level.fastest_first.begin(), level.fastest_first.end(), std::int64_t{0});
  std::ranges::stable_sort(level.fastest_first, std::greater{}, [&](std::int64_t block) {
    return level.slowest[static_cast<std::size_t>(block)];
  });
  return level;
}

Cost Speeds::work_at(Cost time, std::int64_t speed) const noexcept {
  return static_cast<Cost>(Wide{time} * speed / fastest_);
}

Cost Speeds::work_in(Cost time, int level, std::size_t block) const noexcept {
  if (!are_unequal()) return time * sizes_[static_cast<std::size_t>(level)];
  return work_at(time, level_at(level).sum[block]);
}

Cost Speeds::wasted_work(Cost work, int level) const noexcept {
  if (!are_unequal()) return 0;
  const Level& here = level_at(level);
  const Wide used = Wide{sizes_[static_cast<std::size_t>(level)]} * here.even_slowest;
  return static_cast<Cost>(Wide{work} * (here.even_sum - used) / used);
}

Cost Speeds::total_work_in(Cost time) const noexcept {
  return work_at(time, sum_);
}

Cost Speeds::mean_time(Cost work) const noexcept {
  return static_cast<Cost>(Wide{work} * fastest_ / sum_);
}

Cost Speeds::mean_time_rounded_up(Cost work) const noexcept {
  return static_cast<Cost>(wide_ceil_div(Wide{work} * fastest_, sum_));
}

Cost Speeds::even_end(std::span<const Cost> starts, Cost work) const {
  std::vector<std::pair<Cost, std::int64_t>> ranks;  // (start time, speed) of each rank
  ranks.reserve(starts.size());
  for (std::size_t r = 0; r < starts.size(); ++r) ranks.emplace_back(starts[r], slowest_speed(0, r));
  std::ranges::sort(ranks);
  Wide left = Wide{work} * fastest_;
  Wide speed = 0;  // sum of the speeds of the ranks that have started
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    speed += ranks[i - 1].second;
    const Wide step = Wide{ranks[i].first - ranks[i - 1].first} * speed;
    if (step >= left)
      return std::max(ranks.back().first, ranks[i - 1].first + static_cast<Cost>(wide_ceil_div(left, speed)));
    left -= step;
  }
  return ranks.back().first + static_cast<Cost>(wide_ceil_div(left, sum_));
}

}  // namespace evenkeel::context
