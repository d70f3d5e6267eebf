#pragma once

#include "evenkeel/plan/step_plan.hpp"
#include "page/step_picture.hpp"

namespace evenkeel {

/// The picture of a plan that nobody has carried out: no seconds, no bytes. `plan` is of this problem, and
/// `repeated` are the tokens that its units repeat.
[[nodiscard]] StepPicture picture_of(const StepProblem& problem, const StepPlan& plan,
                                     const RepeatedTokens& repeated);

}  // namespace evenkeel
