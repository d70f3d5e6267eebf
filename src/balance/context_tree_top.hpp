#pragma once

#include <span>
#include <vector>

#include "balance/context_task.hpp"

namespace evenkeel {

/// An item and the level that it shall run on.
struct LevelledItem {
  Item item = 0;
  int level = 0;
};

/// The micro-batches of a tree above its leaves, and how long each rank is busy with them.
struct TreeTop {
  std::vector<OpenTask> tasks;  ///< by falling level
  std::vector<Cost> heights;    ///< one a rank

  /// When the last rank ends if `leaves` more work is poured on the ranks like water.
  [[nodiscard]] Cost end_with(Cost leaves) const;
};

/// Levels from the highest, on each the longest item first onto the block that ends first, there into the
/// fullest micro-batch with room, or a new one. Preconditions: levels are 1 or more. O(items log + ranks).
[[nodiscard]] TreeTop place_tree_top(const ContextLevels& levels, std::vector<LevelledItem> items);

}  // namespace evenkeel
