#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// Ranks of a wave that run nothing yet. Where speeds are alike they are only counted, since groups find
/// their places at the end (settle_waves); where they differ, a group has its place from its beginning, on
/// which depends how long it takes.
class FreeRanks {
 public:
  /// None.
  FreeRanks() = default;
  /// All. Views the levels.
  explicit FreeRanks(const Levels& levels);

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  /// What they do together in `time`, in units of the fastest rank's work.
  [[nodiscard]] Cost work_in(Cost time) const noexcept;

  /// The first rank of the fastest block of a level that is free; of several the first one. 0 where speeds
  /// are alike and there are enough ranks.
  [[nodiscard]] std::optional<std::int64_t> fastest(int level) const;
  /// Precondition: fastest(level) was `first`, or they are free.
  void take(int level, std::int64_t first);
  /// Precondition: take was called with that.
  void give_back(int level, std::int64_t first);

 private:
  [[nodiscard]] bool are_free(std::int64_t first, std::int64_t size) const;
  void set(int level, std::int64_t first, bool is_taken);

  const Levels* levels_ = nullptr;
  std::int64_t count_ = 0;
  // Where speeds differ:
  std::vector<bool> taken_;  ///< of each rank
  std::int64_t speed_ = 0;   ///< of those free together
  mutable std::vector<std::size_t>
      first_free_;  ///< of each level's blocks by falling speed none before is free
};

/// When the last rank of every block of every level ends. Each block consists of two blocks of the level
/// below.
class BlockHeights {
 public:
  explicit BlockHeights(const Levels& levels) : levels_(&levels) {
    for (int level = 0; level < levels.count(); ++level)
      heights_.emplace_back(static_cast<std::size_t>(levels.blocks(level)), 0);
  }

  /// Blocks of a level; level 0 are ranks.
  [[nodiscard]] std::span<const Cost> of(int level) const {
    return heights_[static_cast<std::size_t>(level)];
  }

  /// All ranks of a block are busy for longer, or less long. O(size of the block).
  void add(int level, std::size_t block, Cost time) {
    const std::int64_t first = static_cast<std::int64_t>(block) * levels_->size(level);
    for (int below = level; below >= 0; --below)
      for (Cost& height : inside(below, first, levels_->size(level))) height += time;
    for (int above = level + 1; above < levels_->count(); ++above) {
      const std::int64_t parent = first / levels_->size(above);
      if (parent >= levels_->blocks(above)) continue;
      heights_[static_cast<std::size_t>(above)][static_cast<std::size_t>(parent)] =
          std::ranges::max(inside(above - 1, parent * levels_->size(above), levels_->size(above)));
    }
  }

 private:
  /// The blocks of a level that `size` ranks from `first` hold as wholes, where these begin with one.
  std::span<Cost> inside(int level, std::int64_t first, std::int64_t size) {
    return std::span(heights_[static_cast<std::size_t>(level)])
        .subspan(static_cast<std::size_t>(first / levels_->size(level)),
                 static_cast<std::size_t>(size / levels_->size(level)));
  }

  const Levels* levels_;
  std::vector<std::vector<Cost>> heights_;
};

}  // namespace evenkeel::context
