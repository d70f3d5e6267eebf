#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// When the last rank of every block of every level ends, where levels are nested: a block of one level lies
/// inside one of any higher level, or outside all of these.
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
          highest_below(above, parent * levels_->size(above));
    }
  }

 private:
  /// The blocks of a level that `size` ranks from `first` hold as wholes, where these begin with one.
  std::span<Cost> inside(int level, std::int64_t first, std::int64_t size) {
    return std::span(heights_[static_cast<std::size_t>(level)])
        .subspan(static_cast<std::size_t>(first / levels_->size(level)),
                 static_cast<std::size_t>(size / levels_->size(level)));
  }

  /// Of a block: that of the blocks on the next level below, and of what these leave of its ranks.
  [[nodiscard]] Cost highest_below(int level, std::int64_t first) {
    Cost highest = 0;
    std::int64_t left = levels_->size(level);
    for (int below = level - 1; left > 0; --below) {
      for (const Cost height : inside(below, first, left)) highest = std::max(highest, height);
      first += left / levels_->size(below) * levels_->size(below);
      left %= levels_->size(below);
    }
    return highest;
  }

  const Levels* levels_;
  std::vector<std::vector<Cost>> heights_;
};

}  // namespace evenkeel::context
