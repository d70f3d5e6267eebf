#pragma once

#include <span>
#include <vector>

#include "balance/context/task.hpp"
#include "balance/context/tree/top.hpp"

namespace evenkeel::context {

/// Adds micro-batches of single ranks for `items`, which come longest first, to `tasks`: each item onto the
/// rank that ends it first, there into the fullest of these micro-batches with room, or a new one. Ranks
/// start at `heights`, which are what they end at afterwards. O(n log(n)).
void place_tree_leaves(const Levels& levels, std::span<const Item> items, std::vector<Cost>& heights,
                       std::vector<OpenTask>& tasks);

}  // namespace evenkeel::context
