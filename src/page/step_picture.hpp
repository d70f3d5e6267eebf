#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "page/pass_figures.hpp"

namespace evenkeel {

/// A planned micro-batch of a DP rank.
struct MicroBatchPicture {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  ///< number of true tokens; shared tokens count once
  std::int64_t rows = 0;    ///< number of rows after alignment or padding
  std::int64_t cost = 0;
  std::int64_t longest = 0;  ///< tokens of the longest sample
  /// Number of the mini-batch (optimizer update) to which the micro-batch belongs.
  std::int64_t mini_batch = 0;
  std::int64_t first_rank = 0;  ///< the first of the DP ranks that run the micro-batch together
  std::int64_t ranks = 1;       ///< number of DP ranks that run it together

  friend bool operator==(const MicroBatchPicture&, const MicroBatchPicture&) = default;
};

/// A DP rank's part of a step. Also has the rank's work if samples were assigned in source order.
struct DpRankPicture {
  std::int64_t cost_before = 0;
  std::int64_t tokens_before = 0;
  std::int64_t speed = 1000;  ///< speed in thousandths; 1000 if costs are already times
  std::vector<MicroBatchPicture> micro_batches;

  [[nodiscard]] std::int64_t sum(std::int64_t MicroBatchPicture::*figure) const noexcept;
  /// Converts work to time, in units of a rank whose speed is 1000.
  [[nodiscard]] double time_of(std::int64_t cost) const noexcept {
    return static_cast<double>(cost) * 1000 / static_cast<double>(speed);
  }
};

/// Figures of one world rank in one step.
struct RankPicture {
  PhaseTimes seconds{};
  double waited = 0;            ///< part of `seconds` for which its trainer waited
  std::int64_t peak_bytes = 0;  ///< maximum size of its tensors so far
  std::int64_t sent_bytes = 0;  ///< bytes sent to other ranks
  std::int64_t kept_bytes = 0;  ///< bytes that stay on the rank
};

/// Bytes sent between ranks, in a table of limited size. If there are many ranks, each line represents a
/// group of adjacent ranks.
struct LinkPicture {
  static constexpr int max_lines = 64;

  int ranks = 0;                    ///< number of ranks of the world
  int ranks_per_line = 1;           ///< the last line may have fewer
  std::vector<std::int64_t> bytes;  ///< by line of the sender, then by line of the receiver

  [[nodiscard]] static LinkPicture for_ranks(int ranks);
  [[nodiscard]] int lines() const noexcept { return (ranks + ranks_per_line - 1) / ranks_per_line; }
  LinkPicture& operator+=(const LinkPicture& other);
};

/// Properties of a step's plan that affect advice.
struct PlanningPicture {
  std::int64_t cap = 0;
  std::int64_t alignment = 1;
  bool in_source_order = false;  ///< whether balance.algorithm is none
  std::string preset;            ///< value of balance.preset; empty if not set
  bool equal_count = false;
  bool pads_micro_batches = false;
  bool shares_prefixes = false;
  bool has_fixed_micro_batches = false;
  /// Whether micro_batch.count, min_count or multiple_of may require more micro-batches than needed.
  bool asks_for_more = false;
  /// Whether the step is not planned as a grid although balance.strategy: grid is compatible with the other
  /// settings.
  bool may_be_a_grid = false;
  std::string cost;  ///< description of work, such as "tokens"
};

/// Figures of one pass over a step, over all ranks, in the form that the page shows.
struct StepPicture : PassFigures {
  std::int64_t step = 0;
  std::string profile;
  PlanningPicture planning;
  std::int64_t costliest_sample = 0;  ///< work of the costliest sample; 0 if samples share prefixes

  std::vector<std::int64_t> lengths;  ///< lengths of all samples
  std::vector<DpRankPicture> dp_ranks;

  // The members below are empty in a plan.
  std::vector<RankPicture> ranks;  ///< by world rank
  std::optional<LinkPicture> links;
};

/// Returns a DP rank's part of a micro-batch. This is the whole micro-batch or, if groups have different
/// sizes, a share of it.
[[nodiscard]] MicroBatchPicture picture_of(const LengthTable& table, const MicroBatchPlan& plan,
                                           const PlanSettings& settings, DpRank rank);
[[nodiscard]] PlanningPicture picture_of(const PlanSettings& settings);

/// Adds the figures of a DP rank's micro-batches, except `balance`, which requires the mean over all DP
/// ranks.
void add_to_figures(PassFigures& figures, const std::vector<MicroBatchPicture>& of_rank, std::int64_t cap);

/// Fills in the figures that a plan and a run have in common: the planning, the figures of lengths, and the
/// speeds and source-order work in `dp_ranks`. Precondition: `dp_ranks` has one element per DP rank.
void add_common_figures(StepPicture& picture, const LengthTable& table, const PlanSettings& settings);

/// Returns the number of rows if the samples were one padded batch: the number of samples times the longest
/// aligned length.
[[nodiscard]] std::int64_t padded_rows(const LengthTable& table, std::int64_t alignment);

/// Returns the picture of a plan that has not been executed, without seconds and bytes. `plan` must be a plan
/// of this problem, and `repeated` must be the tokens that the plan's units repeat.
[[nodiscard]] StepPicture picture_of(const StepProblem& problem, const StepPlan& plan,
                                     const RepeatedTokens& repeated);

}  // namespace evenkeel
