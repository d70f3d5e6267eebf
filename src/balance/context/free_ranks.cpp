#include "balance/context/free_ranks.hpp"

#include <algorithm>
#include <span>

namespace evenkeel::context {

FreeRanks::FreeRanks(const Levels& levels) : levels_(&levels), count_(levels.problem().ranks) {
  if (!levels.speeds().are_unequal()) return;
  taken_.resize(static_cast<std::size_t>(count_));
  first_free_.resize(static_cast<std::size_t>(levels.count()));
  speed_ = levels.speeds().sum();
}

Cost FreeRanks::work_in(Cost time) const noexcept {
  if (taken_.empty()) return time * count_;
  return levels_->speeds().work_at(time, speed_);
}

bool FreeRanks::are_free(std::int64_t first, std::int64_t size) const {
  const auto begin = taken_.begin() + static_cast<std::ptrdiff_t>(first);
  return std::find(begin, begin + static_cast<std::ptrdiff_t>(size), true) ==
         begin + static_cast<std::ptrdiff_t>(size);
}

std::optional<std::int64_t> FreeRanks::find_fastest_block(int level) const {
  const std::int64_t size = levels_->size(level);
  if (size > count_) return std::nullopt;
  if (taken_.empty()) return 0;
  const std::span<const std::int64_t> blocks = levels_->speeds().blocks_by_speed(level);
  std::size_t& at = first_free_[static_cast<std::size_t>(level)];
  while (at < blocks.size() && !are_free(blocks[at] * size, size)) ++at;
  if (at == blocks.size()) return std::nullopt;
  return blocks[at] * size;
}

void FreeRanks::acquire(int level, std::int64_t first) {
  count_ -= levels_->size(level);
  if (!taken_.empty()) set_taken(level, first, true);
}

void FreeRanks::release(int level, std::int64_t first) {
  count_ += levels_->size(level);
  if (taken_.empty()) return;
  set_taken(level, first, false);
  std::ranges::fill(first_free_, 0);
}

void FreeRanks::set_taken(int level, std::int64_t first, bool is_taken) {
  for (std::int64_t r = first; r < first + levels_->size(level); ++r) {
    const auto rank = static_cast<std::size_t>(r);
    taken_[rank] = is_taken;
    const std::int64_t speed = levels_->speeds().slowest_speed(0, rank);
    speed_ += is_taken ? -speed : speed;
  }
}

}  // namespace evenkeel::context
