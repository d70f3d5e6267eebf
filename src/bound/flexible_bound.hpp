#pragma once

#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// No plan of the problem ends before, whatever its groups; where ranks meet, none in waves. In the units of
/// the cost. Local. Precondition: settings.flexible.
[[nodiscard]] Cost flexible_lower_bound(const StepProblem& problem);

}  // namespace evenkeel
