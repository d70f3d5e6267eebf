#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel::cli {

/// How a step comes out that was planned in one way.
struct ComparedPlan {
  std::string name;                    ///< of the way
  std::int64_t num_micro_batches = 0;  ///< of each DP rank
  std::int64_t above_cap = 0;          ///< micro-batches that break the cap, over all DP ranks
  StepBalance balance;                 ///< by the same measure of work for every way
  double seconds = 0;                  ///< spent planning
  /// Rows added by micro_batch.shapes, of those that are needed, as the first step of a job would choose the
  /// shapes; none for presets, whose micro-batches may be above every shape.
  std::optional<double> padding = std::nullopt;
  StepPlan plan;          ///< with that work as its costs
  PlanSettings settings;  ///< that it was planned with, but that this work and the given speeds are in them
};

/// What a comparison counts as work: the settings' cost, or flops-7b where that is tokens.
[[nodiscard]] CostModel compared_work(const PlanSettings& settings);

/// Plans one step in source order, as other systems do, and in Evenkeel's ways, with the mesh, cap, counts
/// and mini-batches of `settings`; micro-batches are packed and prefixes not shared. Work is compared_work;
/// speeds and a count chosen by time are ways of their own where the
/// settings have them, and waiting is in time where they have speeds. Throws as plan_step does.
[[nodiscard]] std::vector<ComparedPlan> compare_plans(const LengthTable& table, const PlanSettings& settings);

/// A table for people, which shows caps that are broken in an alarming colour.
[[nodiscard]] std::string comparison_table(std::span<const ComparedPlan> plans);
/// An array of the same for programs.
[[nodiscard]] nlohmann::json comparison_json(std::span<const ComparedPlan> plans);

}  // namespace evenkeel::cli
