#pragma once

#include <span>
#include <vector>

#include "balance/context/task.hpp"

namespace evenkeel::context {

/// An item and where it shall run.
struct LevelledItem {
  Item item = 0;
  int level = 0;
  std::int64_t block = -1;  ///< of its level, counted from rank 0; -1: the one that ends it first
};

/// The micro-batches of a tree above its leaves, and how long each rank is busy with them.
struct TreeTop {
  std::vector<OpenTask> tasks;  ///< by falling level
  std::vector<Cost> heights;    ///< one a rank
};

/// Levels from the highest, on each the longest item first onto its block, or that which ends it first, there
/// into the fullest micro-batch with room, or a new one. Those with a block go first. What was in `top` is
/// replaced; its memory is used again. Preconditions: levels are 1 or more. O(items log + ranks).
void place_tree_top(const Levels& levels, std::span<const LevelledItem> items, TreeTop& top);

/// Blocks for `items`, which come by falling work, such that none ends after `limit`: of those blocks and
/// levels on which it does not, an item takes the least area, and there the block that ends last. Where there
/// is none, it takes that which ends first. Micro-batches are not shared here. O(items * ranks).
void fit_into_blocks(const Levels& levels, std::span<LevelledItem> items, Cost limit);

/// Adds micro-batches of single ranks for `items`, which come longest first, to `tasks`: each item onto the
/// rank that ends it first, there into the fullest of these micro-batches with room, or a new one. Ranks
/// start at `heights`, which are what they end at afterwards. O(n log(n)).
void place_tree_leaves(const Levels& levels, std::span<const Item> items, std::vector<Cost>& heights,
                       std::vector<OpenTask>& tasks);

}  // namespace evenkeel::context
