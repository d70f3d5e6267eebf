#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel::cli {

/// The time of a step for one choice of context parallelism.
struct ComparedContext {
  int cp = 0;  ///< the fixed cp; 0 if the groups of micro-batches have different sizes
  /// Whether ranks synchronize at every micro-batch instead of once per step (balance.meet).
  bool meets = false;
  Cost end = 0;  ///< planned time at which the last rank ends the step, in the units of the cost model
  std::int64_t micro_batches = 0;  ///< maximum number of micro-batches on any rank
  double seconds = 0;              ///< time spent planning
};

/// Comparison of choices of context parallelism for these samples. All choices use the settings' number of
/// places (ranks divided by tp and pp) and cap per rank.
struct ContextComparison {
  /// The best fixed cp, and groups of different sizes: first for ranks that synchronize once per step, then
  /// for ranks that synchronize at every micro-batch.
  std::vector<ComparedContext> ways;
  Cost lower_bound = 0;  ///< lower bound on `end` for all choices
  std::string advice;    ///< advice in one sentence
};

/// Plans the step with every cp that divides the number of places and fits the samples, and with groups of
/// different sizes. The maximum size of groups is the one in the settings or, if the settings have a fixed
/// cp, the largest possible. If no cp fits, the result has only groups of different sizes. Returns nullopt if
/// the settings have a fixed cp and some sample does not fit in any group. Work is measured by the settings'
/// cost, or by flops-7b if that cost is tokens; communication and overhead are those of the settings. Throws
/// if a step cannot be planned (see plan_step()).
[[nodiscard]] std::optional<ContextComparison> compare_contexts(const LengthTable& table,
                                                                const PlanSettings& settings);

[[nodiscard]] std::string context_table(const ContextComparison& comparison);
/// Returns an array with one entry per choice.
[[nodiscard]] nlohmann::json context_json(const ContextComparison& comparison);

}  // namespace evenkeel::cli
