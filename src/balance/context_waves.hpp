#pragma once

#include <cstdint>

#include "balance/context_schedule.hpp"

namespace evenkeel {

/// A schedule for ranks that meet after every micro-batch: waves of groups that do not overlap, in which some
/// ranks may be idle. The number of waves is a multiple of `multiple_of`, and at least `min_waves`.
[[nodiscard]] ContextSchedule schedule_context_waves(const ContextProblem& problem,
                                                     std::int64_t multiple_of = 1,
                                                     std::int64_t min_waves = 1);

}  // namespace evenkeel
