#pragma once

#include "balance/context_schedule.hpp"

namespace evenkeel {

/// A schedule for ranks that wait for each other at its end only. Every rank runs its micro-batches by
/// falling size of their groups, so that the members of a group have run the same larger groups'
/// micro-batches before: groups form a tree, nobody waits inside one, and no order can deadlock.
[[nodiscard]] ContextSchedule schedule_context_tree(const ContextProblem& problem);

}  // namespace evenkeel
