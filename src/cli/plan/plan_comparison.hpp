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

/// A step planned in one way, and its figures.
struct ComparedPlan {
  std::string name;                    ///< name of the way
  std::int64_t num_micro_batches = 0;  ///< number on each DP rank
  std::int64_t above_cap = 0;          ///< micro-batches that break the cap, over all DP ranks
  StepBalance balance;                 ///< measured by the same work for all ways
  double seconds = 0;                  ///< time spent planning
  /// Rows added by micro_batch.shapes per needed row, with shapes chosen as in the first step of a job.
  /// Nullopt without shapes, and for presets, whose micro-batches may be larger than every shape.
  std::optional<double> padding = std::nullopt;
  StepPlan plan;          ///< with the compared work as its costs
  PlanSettings settings;  ///< settings of the plan, but with the compared work and the given speeds
};

/// Returns the cost used as work in comparisons: the settings' cost, or flops-7b if that is tokens.
[[nodiscard]] CostModel compared_work(const PlanSettings& settings);

/// Plans one step in source order, in the ways of other systems and of Evenkeel, with the mesh, cap, counts
/// and mini-batches of `settings`. Micro-batches are packed, and prefixes are not shared. Work is
/// compared_work(). If the settings have speeds, or a count chosen by time, these are additional ways; with
/// speeds, waiting is measured in time. Throws the errors of plan_step().
[[nodiscard]] std::vector<ComparedPlan> compare_plans(const LengthTable& table, const PlanSettings& settings);

/// Returns a human-readable table.
[[nodiscard]] std::string comparison_table(std::span<const ComparedPlan> plans);
/// Returns a JSON array with one object per plan.
[[nodiscard]] nlohmann::json comparison_json(std::span<const ComparedPlan> plans);

}  // namespace evenkeel::cli
