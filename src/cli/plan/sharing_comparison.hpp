#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan_input.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/shared_groups.hpp"

namespace evenkeel::cli {

/// The figures of a step for one method of sharing prefixes. They apply to ranks that synchronize once per
/// step, to ranks that synchronize at every micro-batch or, if the same tokens are computed in both cases, to
/// both cases.
struct ComparedSharing {
  std::string name;
  PrefixSharing sharing = PrefixSharing::none;
  SegmentSchedule schedule = SegmentSchedule::packed;
  /// Number of computed tokens. If a group is split, a shared token counts once for each part that has it.
  std::int64_t tokens = 0;
  std::int64_t score_entries = 0;  ///< number of pairs of a query and a key in causal attention
  /// Numbers of shared tokens that are repeated, by reason (see repeat_reasons); included in `tokens`.
  RepeatedTokens repeated{};
  /// Number of tokens that a depth-first schedule recomputes; included in `tokens`.
  std::int64_t recomputed = 0;
  /// Peak memory: the maximum number of aligned tokens, as counted by the cap, that a micro-batch holds at
  /// any time.
  std::int64_t held = 0;
  std::int64_t micro_batches = 0;  ///< maximum number of micro-batches on any DP rank
  /// The next four members are ratios to a bound, in which the work of every token is done once and is spread
  /// evenly over all DP ranks according to their speeds.
  double work = 1;  ///< all computed work, if it could be spread evenly
  /// Lower bound on `work` if the cap limits the rows of a micro-batch, for any way of splitting groups;
  /// nullopt for schedules that keep fewer rows than they compute.
  std::optional<double> least_work = std::nullopt;
  /// Time at which the last rank ends, without bubbles, if ranks synchronize once per step; nullopt if the
  /// figures apply only to ranks that synchronize at every micro-batch.
  std::optional<double> end_once = std::nullopt;
  /// The same time if ranks synchronize at every micro-batch; nullopt if the figures apply only to ranks that
  /// synchronize once per step, and for depth-first schedules.
  std::optional<double> end_meeting = std::nullopt;
  double seconds = 0;  ///< time spent planning
};

/// Plans the step without sharing; with shared prompts; and, if the input has trees, with trees that are
/// packed and (if the settings permit it) with trees that are run depth first. Other settings are unchanged.
/// - A grid may cut trees to equalize work. If a method computes different tokens depending on whether ranks
///   synchronize once per step or at every micro-batch, the result has a line for each case.
/// - In the bound, tokens that trees share count once. Without trees, only tokens of shared prompts count
///   once.
/// - Work is measured by comparison_cost_model(). Recomputing a row counts as a third of its work, since only
///   the forward pass of the row is repeated.
/// Empty if the settings do not share prefixes. Throws if a step cannot be planned (see plan_step()).
[[nodiscard]] std::vector<ComparedSharing> compare_sharing(const PlanInput& input,
                                                           const PlanSettings& settings);

/// Returns a human-readable table. Precondition: `ways` is not empty.
[[nodiscard]] std::string sharing_table(const std::vector<ComparedSharing>& ways);
/// Returns a JSON array with one entry per line of the table.
[[nodiscard]] nlohmann::json sharing_ways_json(const std::vector<ComparedSharing>& ways);

}  // namespace evenkeel::cli
