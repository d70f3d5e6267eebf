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
  int cp = 0;                      ///< fixed; 0: every micro-batch has a group of its own size
  bool meets = false;              ///< ranks wait for each other at every micro-batch, not only once
  Cost end = 0;                    ///< when the last rank is done, in the units of the cost
  std::int64_t micro_batches = 0;  ///< of the rank that has most
  double seconds = 0;              ///< spent planning
};

/// What context parallelism could be for these samples on as many places (ranks over tp and pp) under as many
/// tokens a rank as the settings have.
struct ContextComparison {
  std::vector<ComparedContext> ways;  ///< the best fixed cp and groups of their own, once and meeting
  Cost lower_bound = 0;               ///< before which no way ends
  std::string advice;                 ///< in a sentence
};

/// Plans the step with every cp that divides the ranks and fits, and with groups of their own sizes: the
/// settings', or up to all ranks. No way with a fixed cp
/// where none fits the samples; nothing where settings with a fixed cp have samples that no group holds. Work
/// is the settings' cost, or flops-7b where that is tokens; communication and overhead are the settings'.
/// Throws as plan_step does.
[[nodiscard]] std::optional<ContextComparison> compare_contexts(const LengthTable& table,
                                                                const PlanSettings& settings);

[[nodiscard]] std::string context_table(const ContextComparison& comparison);
/// An array, one entry a way.
[[nodiscard]] nlohmann::json context_json(const ContextComparison& comparison);

}  // namespace evenkeel::cli
