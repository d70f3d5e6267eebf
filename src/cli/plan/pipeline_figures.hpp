#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel::cli {

/// When a plan's simulated pipeline is done and how much of that is bubble (simulated_step), for people: a
/// line, or nothing where there is no pipeline.
[[nodiscard]] std::string pipeline_line(const StepPlan& plan, const PlanSettings& settings);

/// The same as the member "pipeline" of a plan's JSON; none where there is no pipeline.
void add_pipeline(nlohmann::json& json, const StepPlan& plan, const PlanSettings& settings);

}  // namespace evenkeel::cli
