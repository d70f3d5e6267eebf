#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel::context {

/// What takes `time` at speed `fast` takes at speed `slow`, rounded up. Speeds are 1 to 2^31.
[[nodiscard]] constexpr Cost slowed_time(Cost time, std::int64_t fast, std::int64_t slow) noexcept {
  return time / slow * fast + (time % slow * fast + slow - 1) / slow;
}

/// How fast ranks and blocks of them are. Members of a group wait for each other, so that a block is as fast
/// as its slowest rank. Times are in units of the fastest rank: what it does in one.
class Speeds {
 public:
  /// `speeds`: one a rank in any one unit, or none where they are alike. A level has blocks of sizes[level]
  /// ranks, side by side from rank 0; those of one rank are the first.
  Speeds(std::span<const std::int64_t> speeds, std::int64_t ranks, std::span<const std::int64_t> sizes);

  [[nodiscard]] bool differ() const noexcept { return !levels_.empty(); }

  /// What `time` of the fastest rank's is on a block, rounded up.
  [[nodiscard]] Cost on_block(Cost time, int level, std::size_t block) const noexcept {
    return differ() ? at_speed(time, of(level).slowest[block]) : time;
  }
  /// On the fastest group of a level.
  [[nodiscard]] Cost at_best(Cost time, int level) const noexcept {
    return differ() ? at_speed(time, of(level).best) : time;
  }
  /// Of a block whose slowest rank is so fast.
  [[nodiscard]] Cost at_speed(Cost time, std::int64_t speed) const noexcept {
    return slowed_time(time, fastest_, speed);
  }
  /// Of a block: its slowest rank's. 1 where all are alike.
  [[nodiscard]] std::int64_t slowest(int level, std::size_t block) const noexcept {
    return differ() ? of(level).slowest[block] : 1;
  }

  /// Blocks of a level by falling speed, of equally fast ones the first first. None where all are alike.
  [[nodiscard]] std::span<const std::int64_t> fastest_first(int level) const noexcept {
    return differ() ? std::span<const std::int64_t>(of(level).fastest_first)
                    : std::span<const std::int64_t>();
  }
  /// Of all ranks; where all are alike, how many there are.
  [[nodiscard]] std::int64_t sum() const noexcept { return sum_; }
  /// How long the fastest rank's would take for what a block does in `time`, rounded down: the most that
  /// on_block makes no more than `time` of.
  [[nodiscard]] Cost fast_time(Cost time, int level, std::size_t block) const noexcept {
    return differ() ? work_at(time, of(level).slowest[block]) : time;
  }
  /// What ranks whose speeds have that sum do in `time`, rounded down.
  [[nodiscard]] Cost work_at(Cost time, std::int64_t speed) const noexcept;

  /// What the ranks of a block would do in `time`, if none waited for a slower one; rounded down.
  [[nodiscard]] Cost work_of(Cost time, int level, std::size_t block) const noexcept;
  /// What ranks of any group of a level would do at least while they wait for slower ones, beside so much
  /// work of the group; rounded down.
  [[nodiscard]] Cost wasted_by(Cost work, int level) const noexcept;
  /// What all ranks do in `time`, rounded down.
  [[nodiscard]] Cost work_of_all(Cost time) const noexcept;
  /// How long all ranks take together, rounded down.
  [[nodiscard]] Cost mean_time(Cost work) const noexcept;
  /// The same, rounded up.
  [[nodiscard]] Cost even_time(Cost work) const noexcept;
  /// The least time by which ranks that are free at `starts` have done so much work, and all have started.
  [[nodiscard]] Cost even_end(std::span<const Cost> starts, Cost work) const;

 private:
  struct Level {
    std::vector<std::int64_t> slowest;  ///< rank of each block
    std::vector<std::int64_t> sum;      ///< of each block
    std::vector<std::int64_t> fastest_first;
    std::int64_t best = 0;      ///< of the slowest ranks of all groups
    std::int64_t even_sum = 0;  ///< of the group that wastes least
    std::int64_t even_slowest = 0;
  };
  [[nodiscard]] static Level level_of(std::span<const std::int64_t> speeds, std::int64_t size);
  [[nodiscard]] const Level& of(int level) const noexcept { return levels_[static_cast<std::size_t>(level)]; }

  std::int64_t fastest_ = 1;
  std::int64_t sum_ = 0;  ///< of all ranks
  std::vector<std::int64_t> sizes_;
  std::vector<Level> levels_;  ///< none where speeds are alike
};

}  // namespace evenkeel::context
