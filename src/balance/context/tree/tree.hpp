#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/schedule.hpp"
#include "balance/context/task.hpp"

namespace evenkeel::context {

/// Returns a schedule for ranks that wait for each other only at its end. Every rank runs its micro-batches
/// in descending order of group size, so all members of a group have run the same micro-batches of larger
/// groups before. Groups therefore form a tree, in which no rank waits and no deadlock is possible.
///
/// 1. Choose group sizes by dual approximation for malleable tasks (Turek, Wolf and Yu, 1992). For each of
///    several trial lengths, give each item the group size with the least area within that length. Place
///    items, longest first, on the group that is free first.
/// 2. Also fit items within several time limits: in descending order of work, each on the smallest possible
///    group.
/// 3. Improve the best choice by doubling or halving group sizes, then by ruin and recreate. Micro-batches
///    are filled by best fit.
/// 4. If the end is still above the bound, try all items on groups of one size. If it is more than 1/512
///    above the bound, try the groups of schedule_waves(), which also form a tree. Therefore, for up to 16384
///    items, a tree never ends more than 1/512 later than the waves.
///
/// Throws the errors of require_fits(). Deterministic, local, integers only. The search is bounded by counts,
/// which decrease with the number of items, not by a clock. O(n log n) for many items.
[[nodiscard]] Schedule schedule_tree(const Problem& problem);

/// Makes a tree end earlier by ruin and recreate (Schrimpf et al., 2000): takes apart micro-batches of a rank
/// that ends last and of some other ranks, and places their items, roughly in descending order of work, so
/// that all these ranks end earlier. Stops when the end is at most `enough`, or when the given number of
/// places have been examined; subtracts the examined places from that number. Never makes the end later.
/// Random draws have a fixed seed.
void improve_tree(std::vector<OpenTask>& tasks, const Levels& levels, Cost enough,
                  std::int64_t& evaluations_left);

}  // namespace evenkeel::context
