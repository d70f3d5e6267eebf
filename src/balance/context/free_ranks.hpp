#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// The free ranks of a wave. If speeds are equal, this class only counts ranks, since finalize_waves()
/// chooses the ranks of groups at the end. If speeds differ, the time of a group depends on its ranks, so the
/// ranks are chosen immediately.
class FreeRanks {
 public:
  /// Makes an object without free ranks.
  FreeRanks() = default;
  /// Makes an object with all ranks free. `levels` must outlive the object.
  explicit FreeRanks(const Levels& levels);

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// Returns the work that the free ranks do together in `time`. The fastest rank does 1 unit of work per
  /// unit of time.
  [[nodiscard]] Cost work_in(Cost time) const noexcept;

  /// Returns the first rank of the fastest free block (Levels::num_blocks()) of a level, or nullopt if no
  /// block is free; on a tie, the block with the lower number wins. If speeds are equal, returns 0 if enough
  /// ranks are free, otherwise nullopt.
  [[nodiscard]] std::optional<std::int64_t> find_fastest_block(int level) const;
  /// Marks the block of a level that begins at rank `first` as used. Precondition: the block is free. If
  /// speeds are equal, `first` is ignored.
  void acquire(int level, std::int64_t first);
  /// Marks a used block as free again. Precondition: acquire() was called with the same arguments.
  void release(int level, std::int64_t first);

 private:
  [[nodiscard]] bool are_free(std::int64_t first, std::int64_t size) const;
  void set_taken(int level, std::int64_t first, bool is_taken);

  const Levels* levels_ = nullptr;
  std::int64_t count_ = 0;
  // The members below are used only if speeds differ.
  std::vector<bool> taken_;  ///< by rank: whether it is in use
  std::int64_t speed_ = 0;   ///< sum of the free ranks' speeds
  /// By level: position in Speeds::blocks_by_speed(level) before which all blocks are known to be in use.
  mutable std::vector<std::size_t> first_free_;
};

/// For the blocks (Levels::num_blocks()) of every level: the time at which the last rank of each block
/// finishes. Each block consists of two blocks of the level below.
class BlockHeights {
 public:
  explicit BlockHeights(const Levels& levels) : levels_(&levels) {
    for (int level = 0; level < levels.count(); ++level)
      heights_.emplace_back(static_cast<std::size_t>(levels.num_blocks(level)), 0);
  }

  /// Returns the end times of a level's blocks; the blocks of level 0 are ranks.
  [[nodiscard]] std::span<const Cost> heights_at(int level) const {
    return heights_[static_cast<std::size_t>(level)];
  }

  /// Adds `time`, possibly negative, to the busy time of all ranks of a block. O(size of the block).
  void add(int level, std::size_t block, Cost time) {
    const std::int64_t first = static_cast<std::int64_t>(block) * levels_->size(level);
    for (int below = level; below >= 0; --below)
      for (Cost& height : heights_within(below, first, levels_->size(level))) height += time;
    for (int above = level + 1; above < levels_->count(); ++above) {
      const std::int64_t parent = first / levels_->size(above);
      if (parent >= levels_->num_blocks(above)) continue;
      heights_[static_cast<std::size_t>(above)][static_cast<std::size_t>(parent)] =
          std::ranges::max(heights_within(above - 1, parent * levels_->size(above), levels_->size(above)));
    }
  }

 private:
  /// Returns the end times of a level's blocks that lie within the ranks from `first` to first + size - 1.
  /// Precondition: a block of the level begins at `first`.
  std::span<Cost> heights_within(int level, std::int64_t first, std::int64_t size) {
    return std::span(heights_[static_cast<std::size_t>(level)])
        .subspan(static_cast<std::size_t>(first / levels_->size(level)),
                 static_cast<std::size_t>(size / levels_->size(level)));
  }

  const Levels* levels_;
  std::vector<std::vector<Cost>> heights_;
};

}  // namespace evenkeel::context
