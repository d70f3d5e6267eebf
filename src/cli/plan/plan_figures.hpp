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

/// Describe, as text and as JSON, a plan in which groups have different sizes: the micro-batches of each
/// group, the time at which the last rank ends, and a lower bound on that time. `plan` is the result of
/// plan_step(problem).
[[nodiscard]] std::string flexible_summary(const StepProblem& problem, const StepPlan& plan, double seconds);
[[nodiscard]] nlohmann::json flexible_json(const StepProblem& problem, const StepPlan& plan, double seconds);

/// Returns a human-readable line about the plan's simulated pipeline (simulate_step): when it ends, and what
/// fraction of that time is bubble. Empty without a pipeline.
[[nodiscard]] std::string pipeline_line(const StepPlan& plan, const PlanSettings& settings);

/// Adds the figures of pipeline_line() to a plan's JSON, as the member "pipeline". Does nothing without a
/// pipeline.
void add_pipeline(nlohmann::json& json, const StepPlan& plan, const PlanSettings& settings);

/// Returns the line "tokens repeated by splits: ...", with the numbers of shared tokens that are repeated, by
/// reason. Empty if samples do not share prefixes.
[[nodiscard]] std::string sharing_line(const PackUnits& units);

/// Returns a plan's tokens and attention scores, with and without sharing, and the tokens that splits repeat,
/// with the same figures as in a run's report.
[[nodiscard]] nlohmann::json sharing_json(const PackUnits& units);

/// The padding of a plan's micro-batches to a few shapes, which are chosen as in the first step of a job.
struct ShapedPlan {
  std::vector<PackedShape> shapes;
  /// Number of rows, including filler, before micro-batches are padded to the shapes; over all CP ranks.
  std::int64_t rows = 0;
  std::int64_t padding = 0;  ///< number of pad rows added to reach the shapes, over all CP ranks

  /// Returns the number of pad rows per needed row.
  [[nodiscard]] double padding_ratio() const {
    return static_cast<double>(padding) / static_cast<double>(rows);
  }
};

/// Returns nullopt unless the settings limit the number of shapes. Throws ConfigError if the number of shapes
/// is too small. Preconditions: `plan` is the result of plan_step() for this problem, and its micro-batches
/// are within the cap.
[[nodiscard]] std::optional<ShapedPlan> shaped_plan(const StepProblem& problem, const StepPlan& plan);

}  // namespace evenkeel::cli
