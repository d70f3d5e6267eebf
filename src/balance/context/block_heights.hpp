#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

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
