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

/// What a step comes to if its samples share prefixes in one way, and if its ranks meet in one way or, if
/// the same is computed in both, in either.
struct ComparedSharing {
  std::string name;
  PrefixSharing sharing = PrefixSharing::none;
  SegmentSchedule schedule = SegmentSchedule::packed;
  std::int64_t tokens = 0;          ///< computed: shared ones once in each part of a group that is split
  std::int64_t score_entries = 0;   ///< pairs of a query and a key in causal attention
  RepeatedTokens repeated{};        ///< of `tokens`, those that splits of groups repeat, by reason
  std::int64_t computed_again = 0;  ///< of `tokens`, those that a schedule computes a second time
  /// Memory, in aligned tokens as the cap counts: what a micro-batch holds at once, of the one with most.
  std::int64_t held = 0;
  std::int64_t micro_batches = 0;  ///< of each DP rank, or of the one that has most
  /// Over the bound, which is every token's work once, evenly on all DP ranks by their speeds:
  double work = 1;  ///< of all that is computed, as if it could be shared out evenly
  /// The least that `work` can be where rows of a micro-batch are below the cap, in whatever way groups are
  /// split; none for schedules that keep fewer rows than they compute.
  std::optional<double> least_work = std::nullopt;
  /// When the last rank is done, without bubbles, if ranks meet once; null in the line of the other meeting.
  std::optional<double> end_once = std::nullopt;
  /// The same if they meet at every micro-batch; null, too, for schedules that take their own time.
  std::optional<double> end_meeting = std::nullopt;
  double seconds = 0;  ///< spent planning
};

/// Plans the step path by path, with prompts shared and, where the input has trees, with these packed and,
/// unless the settings refuse it, run depth first; all with the other settings as they are, but with packed
/// micro-batches. A grid may cut trees for equal work: a way that computes other tokens if ranks meet once
/// than if they meet at every micro-batch has a line for each. The bound counts a token once that trees share
/// or, without trees, prompts. Work is compared_work, of which what is computed again is a third, since that
/// is only its forward pass. None where the settings share nothing. Throws as plan_step does.
[[nodiscard]] std::vector<ComparedSharing> compare_sharing(const PlanInput& input,
                                                           const PlanSettings& settings);

/// Precondition: `ways` is not empty.
[[nodiscard]] std::string sharing_table(const std::vector<ComparedSharing>& ways);
/// An array, one entry a way.
[[nodiscard]] nlohmann::json sharing_ways_json(const std::vector<ComparedSharing>& ways);

}  // namespace evenkeel::cli
