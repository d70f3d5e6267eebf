#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel::cli {

/// A plan in which micro-batches have groups of their own sizes, for people and for programs: which group
/// runs what, when the last rank is done, and before when none can be. `plan` is plan_step's of the problem.
[[nodiscard]] std::string flexible_summary(const StepProblem& problem, const StepPlan& plan, double seconds);
[[nodiscard]] nlohmann::json flexible_json(const StepProblem& problem, const StepPlan& plan, double seconds);

}  // namespace evenkeel::cli
