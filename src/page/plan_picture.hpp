#pragma once

#include "evenkeel/plan/step_plan.hpp"
#include "page/step_picture.hpp"

namespace evenkeel {

/// The picture of a plan that nobody has carried out: no seconds, no bytes. `plan` is of this table under
/// these settings.
[[nodiscard]] StepPicture picture_of(const LengthTable& table, const PlanSettings& settings,
                                     const StepPlan& plan);

}  // namespace evenkeel
