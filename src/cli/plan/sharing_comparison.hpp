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

/// The figures of a step whose samples share prefixes in one way. They hold for ranks that meet once per
/// step, for ranks that meet at every micro-batch or, if both compute the same tokens, for both.
struct ComparedSharing {
  std::string name;
  PrefixSharing sharing = PrefixSharing::none;
  SegmentSchedule schedule = SegmentSchedule::packed;
  /// Number of computed tokens; a shared token counts once per part of a group that is split.
  std::int64_t tokens = 0;
  std::int64_t score_entries = 0;  ///< pairs of a query and a key in causal attention
  RepeatedTokens repeated{};       ///< those of `tokens` that splits of groups repeat, by reason
  std::int64_t recomputed = 0;     ///< those of `tokens` that a schedule recomputes
  /// Memory in aligned tokens, as counted by the cap: the maximum number held by a micro-batch at once.
  std::int64_t held = 0;
  std::int64_t micro_batches = 0;  ///< on the DP rank with the most
  /// The members below are ratios to the bound, in which every token's work is done once and is spread evenly
  /// over all DP ranks according to their speeds.
  double work = 1;  ///< all computed work, as if it could be spread evenly
  /// Lower bound on `work` if the cap limits the rows of a micro-batch, however groups are split; nullopt for
  /// schedules that keep fewer rows than they compute.
  std::optional<double> least_work = std::nullopt;
  /// Time at which the last rank ends, without bubbles, if ranks meet once; nullopt if the figures are only
  /// for ranks that meet at every micro-batch.
  std::optional<double> end_once = std::nullopt;
  /// The same time if ranks meet at every micro-batch; nullopt if the figures are only for ranks that meet
  /// once, and for depth-first schedules.
  std::optional<double> end_meeting = std::nullopt;
  double seconds = 0;  ///< time spent planning
};

/// Plans the step without sharing, with prompts shared and, if the input has trees, with trees packed and (if
/// the settings permit it) with trees run depth first. Other settings are unchanged.
/// - A grid may cut trees to equalize work. If a way computes different tokens depending on whether ranks
///   meet once or at every micro-batch, it has a line for each case.
/// - The bound counts tokens once if trees share them or, without trees, if prompts do.
/// - Work is compared_work(). A recomputed row counts a third, since only its forward pass is repeated.
/// Empty if the settings do not share prefixes. Throws the errors of plan_step().
[[nodiscard]] std::vector<ComparedSharing> compare_sharing(const PlanInput& input,
                                                           const PlanSettings& settings);

/// Returns a human-readable table. Precondition: `ways` is not empty.
[[nodiscard]] std::string sharing_table(const std::vector<ComparedSharing>& ways);
/// Returns an array with one entry per way.
[[nodiscard]] nlohmann::json sharing_ways_json(const std::vector<ComparedSharing>& ways);

}  // namespace evenkeel::cli
