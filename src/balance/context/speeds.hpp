#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel::context {

/// Returns the time that work takes at speed `slow` if it takes `time` at speed `fast`, rounded up. Speeds
/// are 1 to 2^31.
[[nodiscard]] constexpr Cost slowed_time(Cost time, std::int64_t fast, std::int64_t slow) noexcept {
  return time / slow * fast + (time % slow * fast + slow - 1) / slow;
}

/// The speeds of ranks and of blocks of ranks. Members of a group wait for each other, so a block is as fast
/// as its slowest rank. The fastest rank does 1 unit of work per unit of time.
class Speeds {
 public:
  /// `speeds` has one entry per rank, in any common unit, or is empty if speeds are equal. A level has
  /// adjacent blocks of sizes[level] ranks, starting at rank 0; the blocks of level 0 have one rank.
  Speeds(std::span<const std::int64_t> speeds, std::int64_t ranks, std::span<const std::int64_t> sizes);

  [[nodiscard]] bool are_unequal() const noexcept { return !levels_.empty(); }

  /// Returns the time of a block, rounded up, for work that takes `time` on the fastest rank.
  [[nodiscard]] Cost block_time(Cost time, int level, std::size_t block) const noexcept {
    return are_unequal() ? time_at_speed(time, level_at(level).slowest[block]) : time;
  }
  /// Returns the time of the fastest group of a level for work that takes `time` on the fastest rank.
  [[nodiscard]] Cost best_time(Cost time, int level) const noexcept {
    return are_unequal() ? time_at_speed(time, level_at(level).best) : time;
  }
  /// Returns the time at speed `speed` for work that takes `time` on the fastest rank.
  [[nodiscard]] Cost time_at_speed(Cost time, std::int64_t speed) const noexcept {
    return slowed_time(time, fastest_, speed);
  }
  /// Returns the speed of a block's slowest rank; 1 if speeds are equal.
  [[nodiscard]] std::int64_t slowest_speed(int level, std::size_t block) const noexcept {
    return are_unequal() ? level_at(level).slowest[block] : 1;
  }

  /// Returns the blocks of a level in descending order of speed; on a tie, in ascending order of their
  /// numbers. Empty if speeds are equal.
  [[nodiscard]] std::span<const std::int64_t> blocks_by_speed(int level) const noexcept {
    return are_unequal() ? std::span<const std::int64_t>(level_at(level).fastest_first)
                         : std::span<const std::int64_t>();
  }
  /// Returns the sum of all speeds; the number of ranks if speeds are equal.
  [[nodiscard]] std::int64_t sum() const noexcept { return sum_; }
  /// Returns the amount of work that a block does in `time`, expressed as the time that it takes on the
  /// fastest rank, rounded down. This is the largest value for which block_time() is at most `time`.
  [[nodiscard]] Cost time_on_fastest(Cost time, int level, std::size_t block) const noexcept {
    return are_unequal() ? work_at(time, level_at(level).slowest[block]) : time;
  }
  /// Returns the work done in `time` by ranks whose speeds add up to `speed`, rounded down.
  [[nodiscard]] Cost work_at(Cost time, std::int64_t speed) const noexcept;

  /// Returns the work that the ranks of a block could do in `time` if they did not wait for slower ranks,
  /// rounded down.
  [[nodiscard]] Cost work_in(Cost time, int level, std::size_t block) const noexcept;
  /// Returns a lower bound on the work that the ranks of a group of this level could do while they wait for
  /// slower ranks, if the group does `work`; rounded down.
  [[nodiscard]] Cost wasted_work(Cost work, int level) const noexcept;
  /// Returns the work that all ranks do in `time`, rounded down.
  [[nodiscard]] Cost total_work_in(Cost time) const noexcept;
  /// Returns the time that all ranks together take for `work`, rounded down.
  [[nodiscard]] Cost mean_time(Cost work) const noexcept;
  /// Returns the time that all ranks together take for `work`, rounded up.
  [[nodiscard]] Cost mean_time_rounded_up(Cost work) const noexcept;
  /// Returns the earliest time by which every rank r has started, at starts[r], and the ranks have finished
  /// `work` together.
  [[nodiscard]] Cost even_end(std::span<const Cost> starts, Cost work) const;

 private:
  struct Level {
    std::vector<std::int64_t> slowest;  ///< speed of each block's slowest rank
    std::vector<std::int64_t> sum;      ///< sum of the speeds of each block's ranks
    std::vector<std::int64_t> fastest_first;
    std::int64_t best = 0;      ///< speed of the level's fastest block
    std::int64_t even_sum = 0;  ///< sum of the speeds of the block with the most equal speeds
    std::int64_t even_slowest = 0;
  };
  [[nodiscard]] static Level make_level(std::span<const std::int64_t> speeds, std::int64_t size);
  [[nodiscard]] const Level& level_at(int level) const noexcept {
    return levels_[static_cast<std::size_t>(level)];
  }

  std::int64_t fastest_ = 1;
  std::int64_t sum_ = 0;  ///< sum of the speeds of all ranks
  std::vector<std::int64_t> sizes_;
  std::vector<Level> levels_;  ///< empty if speeds are equal
};

}  // namespace evenkeel::context
