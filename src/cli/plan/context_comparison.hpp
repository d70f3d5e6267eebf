#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel::cli {

/// A step's time with one choice of context parallelism.
struct ComparedContext {
  int cp = 0;                      ///< the fixed cp; 0 if every micro-batch has a group of its own size
  bool meets = false;              ///< whether ranks wait for each other at every micro-batch, not only once
  Cost end = 0;                    ///< time at which the last rank ends, in the units of the cost
  std::int64_t micro_batches = 0;  ///< number on the rank with the most
  double seconds = 0;              ///< time spent planning
};

/// Choices of context parallelism for these samples, for the settings' places (ranks over tp and pp) and cap
/// per rank.
struct ContextComparison {
  std::vector<ComparedContext> ways;  ///< best fixed cp and groups of different sizes: if ranks meet once per
                                      ///< step, then if they meet at every micro-batch
  Cost lower_bound = 0;               ///< lower bound on `end` of all ways
  std::string advice;                 ///< one sentence
};

/// Plans the step with every cp that divides the ranks and fits the samples, and with groups of different
/// sizes. The maximum size of groups is the one in the settings or, if the settings have a fixed cp, all
/// ranks. If no cp fits, there is no way with a fixed cp. Returns nullopt if the settings have a fixed cp and
/// some sample does not fit in any group. Work is measured by the settings' cost, or by flops-7b if that is
/// tokens; communication and overhead are those of the settings. Throws the errors of plan_step().
[[nodiscard]] std::optional<ContextComparison> compare_contexts(const LengthTable& table,
                                                                const PlanSettings& settings);

[[nodiscard]] std::string context_table(const ContextComparison& comparison);
/// Returns an array with one entry per way.
[[nodiscard]] nlohmann::json context_json(const ContextComparison& comparison);

}  // namespace evenkeel::cli
