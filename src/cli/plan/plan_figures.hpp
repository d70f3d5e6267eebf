#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel::cli {

/// A plan in which micro-batches have groups of their own sizes, for people and for programs: which group
/// runs what, when the last rank is done, and before when none can be. `plan` is plan_step's of the problem.
[[nodiscard]] std::string flexible_summary(const StepProblem& problem, const StepPlan& plan, double seconds);
[[nodiscard]] nlohmann::json flexible_json(const StepProblem& problem, const StepPlan& plan, double seconds);

/// When a plan's simulated pipeline is done and how much of that is bubble (simulated_step), for people: a
/// line, or nothing where there is no pipeline.
[[nodiscard]] std::string pipeline_line(const StepPlan& plan, const PlanSettings& settings);

/// The same as the member "pipeline" of a plan's JSON; none where there is no pipeline.
void add_pipeline(nlohmann::json& json, const StepPlan& plan, const PlanSettings& settings);

/// "tokens repeated by splits: ...": what groups above a limit repeat, and which limit that is. Empty where
/// samples share nothing.
[[nodiscard]] std::string sharing_line(const PackUnits& units);

/// What a plan comes to in tokens and attention scores, with sharing and without, and what splits repeat: the
/// figures of a run's report.
[[nodiscard]] nlohmann::json sharing_json(const PackUnits& units);

/// What it would cost to hand a plan's micro-batches out in few shapes, as the first step of a job would
/// choose them.
struct ShapedPlan {
  std::vector<PackedShape> shapes;
  std::int64_t rows = 0;     ///< needed over all CP ranks, filler counted
  std::int64_t padding = 0;  ///< rows added

  /// Of the rows that are needed.
  [[nodiscard]] double part() const { return static_cast<double>(padding) / static_cast<double>(rows); }
};

/// None where the settings do not ask for shapes. Throws ConfigError as first_shapes does. Preconditions:
/// `plan` comes from plan_step of this problem, and keeps the cap.
[[nodiscard]] std::optional<ShapedPlan> shaped_plan(const StepProblem& problem, const StepPlan& plan);

}  // namespace evenkeel::cli
