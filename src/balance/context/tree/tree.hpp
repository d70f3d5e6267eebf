#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/schedule.hpp"
#include "balance/context/task.hpp"

namespace evenkeel::context {

/// A schedule for ranks that wait for each other at its end only. Every rank runs its micro-batches by
/// falling size of their groups, so that the members of a group have run the same larger groups'
/// micro-batches before: groups form a tree, nobody waits inside one, and no order can deadlock.
///
/// Sizes of groups by dual approximation for tasks that may be split (Turek, Wolf and Yu, 1992): for some
/// trial lengths, each item takes the group on which it takes least of all ranks within that length, and the
/// longest goes first onto the group that ends first. Or items are fitted below some ends, largest first,
/// each on the least of groups. The best is improved by sizes that double or halve, and by ruin and recreate.
/// Micro-batches are filled best-fit.
///
/// Throws as require_fits does. Deterministic, local, integers only; how much is tried is bounded by
/// counts, which fall with the number of items, never by a clock. O(n log n) for many items.
[[nodiscard]] Schedule schedule_tree(const Problem& problem);

/// Makes the end of a tree earlier: takes micro-batches of a rank that ends last, and of some other ranks,
/// apart and puts their items, roughly by falling work, where all ends are earlier than that. (Ruin and
/// recreate; Schrimpf et al., 2000.) Until the end is `enough`, or so many places were looked at, which are
/// subtracted. Never worse. What is random has a fixed seed.
void improve_tree(std::vector<OpenTask>& tasks, const Levels& levels, Cost enough, std::int64_t& looks_left);

}  // namespace evenkeel::context
