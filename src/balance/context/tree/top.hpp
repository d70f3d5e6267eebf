#pragma once

#include <span>
#include <vector>

#include "balance/context/task.hpp"

namespace evenkeel::context {

/// An item, and the level and block that are chosen for it.
struct LeveledItem {
  Item item = 0;
  int level = 0;
  /// Number of the block on its level; -1 if the item goes to the block on which it would end first.
  std::int64_t block = -1;
};

/// The micro-batches of groups of more than one rank in a schedule_tree() schedule, and the time for which
/// they keep each rank busy.
struct TreeTop {
  std::vector<OpenTask> tasks;  ///< in descending order of level
  std::vector<Cost> heights;    ///< busy time of each rank
};

/// Places items level by level, from the highest level down. On each level, places the items with a given
/// block first, then the other items, both in descending order of time. An item without a given block goes to
/// the block on which it would end first. On its block, an item goes into the fullest micro-batch with room,
/// or into a new one. Replaces the contents of `top`, and reuses its memory. Precondition: every level is
/// above 0. O(items log(items) + levels * ranks).
void place_tree_top(const Levels& levels, std::span<const LeveledItem> items, TreeTop& top);

/// Chooses levels and blocks for `items`, which are in descending order of work, to make all of them end
/// within `limit`. For each item, chooses the block with the least area (the item's time, summed over the
/// ranks) among the blocks on which the item ends within `limit`; on a tie, the one on which it ends last. If
/// there is no such block, chooses the block on which the item ends first. Assumes that items do not share
/// micro-batches. O(items * ranks).
void fit_into_blocks(const Levels& levels, std::span<LeveledItem> items, Cost limit);

/// Adds micro-batches of single ranks to `tasks` for `items`, which are in descending order of work. Each
/// item goes to the rank on which it would end first, into the fullest of the rank's new micro-batches with
/// room, or into another new one. `heights` contains the start time of each rank on entry, and its end time
/// on return. O(n log(n)).
void place_tree_leaves(const Levels& levels, std::span<const Item> items, std::vector<Cost>& heights,
                       std::vector<OpenTask>& tasks);

}  // namespace evenkeel::context
