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

/// A step planned by one strategy, and its figures.
struct ComparedPlan {
  std::string name;                    ///< name of the strategy
  std::int64_t num_micro_batches = 0;  ///< maximum number of micro-batches on any DP rank
  std::int64_t above_cap = 0;          ///< number of micro-batches that exceed the cap, over all DP ranks
  StepBalance balance;  ///< balance between DP ranks; work is measured by comparison_cost_model()
  double seconds = 0;   ///< time spent planning
  /// Number of padding rows per needed row, if micro_batch.shapes is set. Shapes are chosen as in the first
  /// step of a job. Nullopt without shapes, and for presets, whose micro-batches may be larger than every
  /// shape.
  std::optional<double> padding = std::nullopt;
  StepPlan plan;  ///< the plan; its costs are measured by comparison_cost_model()
  /// Settings of the plan, but with comparison_cost_model() as the cost, and with the configured speeds.
  PlanSettings settings;
};

/// Returns the cost by which comparisons measure work: the settings' cost, or flops-7b if that cost is
/// tokens.
[[nodiscard]] CostModel comparison_cost_model(const PlanSettings& settings);

/// Plans the same step in several ways: in source order, with the presets of other systems, and with
/// Evenkeel's own strategies. Every plan has the mesh, cap, counts and number of mini-batches of `settings`.
/// Mini-batches are cut before samples are assigned (batch.keep_mini_batch: true), micro-batches are packed,
/// and prefixes are not shared. Work is measured by comparison_cost_model(). If the settings have speeds, one
/// more plan considers them, and waiting is measured in time; if their count rule is CountRule::fastest, one
/// more plan follows it. Throws if a step cannot be planned (see plan_step()).
[[nodiscard]] std::vector<ComparedPlan> compare_plans(const LengthTable& table, const PlanSettings& settings);

/// Returns a human-readable table.
[[nodiscard]] std::string comparison_table(std::span<const ComparedPlan> plans);
/// Returns a JSON array with one object per plan.
[[nodiscard]] nlohmann::json comparison_json(std::span<const ComparedPlan> plans);

}  // namespace evenkeel::cli
