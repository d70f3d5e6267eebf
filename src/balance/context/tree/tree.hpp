#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/schedule.hpp"
#include "balance/context/task.hpp"

namespace evenkeel::context {

/// Returns a schedule for ranks that wait for each other only at its end. Every rank runs its micro-batches
/// in descending order of group size, so all members of a group have run the same micro-batches of larger
/// groups before. Groups therefore form a tree, in which a rank never waits and deadlocks are impossible.
///
/// 1. Choose group sizes by dual approximation for malleable tasks (Turek, Wolf and Yu, 1992). For each of
///    several trial lengths, give each item the group size with the least area within that length. Place
///    items, longest first, on the group that is free first.
/// 2. Also try to fit the items within several time limits: in descending order of work, each on the group
///    with the least area on which it ends in time.
/// 3. Improve the best choice by doubling or halving group sizes, then by ruin and recreate. Micro-batches
///    are filled by best fit.
/// 4. For up to 16384 items: if the end is more than 1/4096 above lower_bound(), try groups of one size for
///    all items. If it is more than 1/512 above that bound, try the groups of schedule_waves(), which also
///    form a tree. Therefore, the tree never ends later than the waves by more than 1/512 of the bound.
///
/// Throws InputError or LimitError if require_schedulable() rejects the problem. Deterministic, local,
/// integers only. The search is limited by operation counts, which decrease with the number of items, not by
/// time. O(n log n) for many items.
[[nodiscard]] Schedule schedule_tree(const Problem& problem);

/// Makes a tree end earlier by ruin and recreate (Schrimpf et al., 2000): removes micro-batches from a rank
/// that ends last and from some other ranks, and places their items again, roughly in descending order of
/// work, so that no rank that gets an item ends as late as before. Repeats this until the end is at most
/// `enough`, or until `evaluations_left` is used up; subtracts from it the number of examined places of
/// items, and an amount per trial. Never makes the end later. Random numbers have a fixed seed.
void improve_tree(std::vector<OpenTask>& tasks, const Levels& levels, Cost enough,
                  std::int64_t& evaluations_left);

}  // namespace evenkeel::context
