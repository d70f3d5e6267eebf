#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "balance/context_levels.hpp"

namespace evenkeel {

/// When the last rank of every block of every level ends.
class BlockHeights {
 public:
  explicit BlockHeights(const ContextLevels& levels) : levels_(&levels) {
    for (int level = 0; level < levels.count(); ++level)
      heights_.emplace_back(static_cast<std::size_t>(levels.blocks(level)), 0);
  }

  /// Blocks of a level; level 0 are ranks.
  [[nodiscard]] std::span<const Cost> of(int level) const {
    return heights_[static_cast<std::size_t>(level)];
  }

  /// All ranks of a block are busy for longer, or less long. O(size of the block).
  void add(int level, std::size_t block, Cost time) {
    std::size_t first = block;
    std::size_t last = block + 1;
    for (int below = level; below >= 0; --below, first *= 2, last *= 2)
      for (std::size_t b = first; b < last; ++b) heights_[static_cast<std::size_t>(below)][b] += time;
    for (int above = level + 1; above < levels_->count(); ++above) {
      block /= 2;
      std::vector<Cost>& here = heights_[static_cast<std::size_t>(above)];
      if (block >= here.size()) return;
      const std::span<const Cost> halves = of(above - 1);
      here[block] = std::max(halves[2 * block], halves[2 * block + 1]);
    }
  }

 private:
  const ContextLevels* levels_;
  std::vector<std::vector<Cost>> heights_;
};

}  // namespace evenkeel
