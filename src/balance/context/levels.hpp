#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/context/schedule.hpp"
#include "balance/context/speeds.hpp"

namespace evenkeel::context {

/// The possible group sizes of a problem, ascending, and the times, areas and tokens of its items for each
/// size. A level is an index into the sizes. The problem must outlive this object and must have passed
/// require_schedulable().
class Levels {
 public:
  explicit Levels(const Problem& problem);

  [[nodiscard]] const Problem& problem() const noexcept { return *problem_; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(sizes_.size()); }
  [[nodiscard]] std::int64_t num_items() const noexcept {
    return static_cast<std::int64_t>(problem_->items.size());
  }
  [[nodiscard]] std::int64_t size(int level) const noexcept {
    return sizes_[static_cast<std::size_t>(level)];
  }
  /// Returns the maximum number of aligned tokens in a micro-batch of a group of this level.
  [[nodiscard]] std::int64_t cap(int level) const noexcept { return caps_[static_cast<std::size_t>(level)]; }
  /// Returns the number of blocks of a level: adjacent groups of size(level) ranks, starting at rank 0.
  [[nodiscard]] std::int64_t num_blocks(int level) const noexcept { return problem_->ranks / size(level); }

  [[nodiscard]] const ContextWork& work(Item item) const noexcept {
    return problem_->items[static_cast<std::size_t>(item)];
  }
  [[nodiscard]] std::int64_t aligned_tokens(Item item, int level) const {
    return level == 0 ? tokens_[static_cast<std::size_t>(item)] : problem_->aligned_size(item, size(level));
  }
  [[nodiscard]] bool fits(Item item, int level) const { return aligned_tokens(item, level) <= cap(level); }
  /// Returns the lowest level on which the item fits.
  [[nodiscard]] int lowest_level(Item item) const noexcept { return lowest_[static_cast<std::size_t>(item)]; }

  [[nodiscard]] const Speeds& speeds() const noexcept { return speeds_; }
  /// Returns the time that `work` would take on a group of this level if every rank were as fast as the
  /// fastest one.
  [[nodiscard]] Cost fastest_time(const ContextWork& work, int level) const noexcept {
    return time_on(work, size(level), problem_->communication);
  }
  /// Returns the time that `work` takes on the fastest group of the level.
  [[nodiscard]] Cost time(const ContextWork& work, int level) const noexcept {
    return speeds_.best_time(fastest_time(work, level), level);
  }
  [[nodiscard]] Cost time_on_block(const ContextWork& work, int level, std::size_t block) const noexcept {
    return speeds_.block_time(fastest_time(work, level), level, block);
  }
  /// Returns the time that `work` takes on the block that begins at rank `first`.
  [[nodiscard]] Cost time_at(const ContextWork& work, int level, std::int64_t first) const noexcept {
    const Cost time = fastest_time(work, level);
    return speeds_.are_unequal()
               ? speeds_.block_time(time, level, static_cast<std::size_t>(first / size(level)))
               : time;
  }
  /// Returns the maximum amount of work that the block that begins at rank `first` can do within `time`,
  /// expressed as the time of this work on the fastest ranks.
  [[nodiscard]] Cost equivalent_fastest_time(Cost time, int level, std::int64_t first) const noexcept {
    return speeds_.are_unequal()
               ? speeds_.time_on_fastest(time, level, static_cast<std::size_t>(first / size(level)))
               : time;
  }
  /// Returns the time of the item alone on the fastest group of the level.
  [[nodiscard]] Cost time(Item item, int level) const noexcept { return time(work(item), level); }
  /// Returns the time of the item alone on the fastest ranks, summed over the ranks of its group.
  [[nodiscard]] Cost area(Item item, int level) const noexcept {
    return work(item).work + exposed_communication(work(item), size(level), problem_->communication) +
           problem_->communication.overhead * size(level);
  }

  /// Returns, among the levels on which the item alone ends within `limit`, the level with the least area;
  /// the lower level on a tie. If there is none, returns the level on which the item takes the least time.
  [[nodiscard]] int cheapest_level_within(Item item, Cost limit) const;

 private:
  const Problem* problem_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> caps_;
  std::vector<std::int64_t> tokens_;  ///< aligned tokens of each item on level 0
  std::vector<std::uint8_t> lowest_;
  Speeds speeds_;
};

/// Returns all items by descending work; on a tie, the item with the lower number first.
[[nodiscard]] std::vector<Item> sort_by_descending_work(const Levels& levels);

/// Returns lower_bound() of the problem. Precondition: the problem has items.
[[nodiscard]] Cost lower_bound_on(const Levels& levels);

/// Returns the possible sizes of groups: powers of two up to `max_size`, ascending.
[[nodiscard]] std::vector<std::int64_t> group_sizes_up_to(std::int64_t max_size);

/// Returns size * limits.max_size, or the largest 64-bit integer if the product is larger.
[[nodiscard]] std::int64_t cap_of(const BinLimits& limits, std::int64_t size);

}  // namespace evenkeel::context
