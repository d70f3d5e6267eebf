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
  std::int64_t tokens = 0;  ///< number of true tokens (without padding); shared tokens count once
  std::int64_t rows = 0;    ///< number of rows after alignment or padding
  std::int64_t cost = 0;
  std::int64_t longest = 0;  ///< number of tokens of the longest sample
  /// Number of the mini-batch (optimizer update) that contains the micro-batch.
  std::int64_t mini_batch = 0;
  std::int64_t first_rank = 0;  ///< first of the DP ranks that run the micro-batch together
  std::int64_t ranks = 1;       ///< number of DP ranks that run the micro-batch together

  friend bool operator==(const MicroBatchPicture&, const MicroBatchPicture&) = default;
};

/// A DP rank's part of a step. Also holds the work that the rank would have if samples were assigned in
/// source order.
struct DpRankPicture {
  std::int64_t cost_before = 0;
  std::int64_t tokens_before = 0;
  std::int64_t speed = 1000;  ///< relative speed in thousandths; 1000 if costs are already times
  std::vector<MicroBatchPicture> micro_batches;

  [[nodiscard]] std::int64_t sum(std::int64_t MicroBatchPicture::*figure) const noexcept;
  /// Converts work to time. A rank whose speed is 1000 does one unit of work per unit of time.
  [[nodiscard]] double time_of(std::int64_t cost) const noexcept {
    return static_cast<double>(cost) * 1000 / static_cast<double>(speed);
  }
};

/// Figures of one world rank, for one step or for all steps of a run.
struct RankPicture {
  PhaseTimes seconds{};
  double waited = 0;            ///< part of `seconds` during which the rank's trainer waited
  std::int64_t peak_bytes = 0;  ///< maximum number of bytes of the rank's column memory so far
  std::int64_t sent_bytes = 0;  ///< bytes sent to other ranks
  std::int64_t kept_bytes = 0;  ///< bytes that stay on the rank
};

/// Matrix of the bytes sent between ranks, with at most max_lines rows and as many columns. If there are more
/// ranks, each row and each column represents a group of adjacent ranks.
struct LinkPicture {
  static constexpr int max_lines = 64;

  int ranks = 0;                    ///< number of world ranks
  int ranks_per_line = 1;           ///< number of ranks per row or column; the last one may have fewer
  std::vector<std::int64_t> bytes;  ///< in row-major order; rows are senders, columns are receivers

  [[nodiscard]] static LinkPicture for_ranks(int ranks);
  [[nodiscard]] int num_lines() const noexcept { return (ranks + ranks_per_line - 1) / ranks_per_line; }
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
  bool may_require_more = false;
  /// Whether balance.strategy: grid could be tried: the step is not planned as a grid, but the other settings
  /// allow it.
  bool could_use_grid = false;
  std::string cost;  ///< description of the cost model, such as "tokens"
};

/// Data of all ranks about one pass over a step, for the report page.
struct StepPicture : PassFigures {
  std::int64_t step = 0;
  std::string profile;
  PlanningPicture planning;
  std::int64_t costliest_sample = 0;  ///< work of the costliest sample; 0 if samples share prefixes

  std::vector<std::int64_t> lengths;  ///< lengths of all samples
  std::vector<DpRankPicture> dp_ranks;

  // The members below are empty for a plan that has not been executed.
  std::vector<RankPicture> ranks;  ///< by world rank
  std::optional<LinkPicture> links;
};

/// Returns a DP rank's part of a micro-batch. This is the whole micro-batch or, if CP groups may differ in
/// size, one part of it.
[[nodiscard]] MicroBatchPicture picture_of(const LengthTable& table, const MicroBatchPlan& plan,
                                           const PlanSettings& settings, DpRank rank);
[[nodiscard]] PlanningPicture picture_of(const PlanSettings& settings);

/// Adds the figures of a DP rank's micro-batches to `figures`, except for `balance`, which requires the mean
/// over all DP ranks.
void add_to_figures(PassFigures& figures, const std::vector<MicroBatchPicture>& of_rank, std::int64_t cap);

/// Fills in the members that planned and executed steps have in common: `planning`, `lengths`,
/// `costliest_sample`, and the speeds and source-order work in `dp_ranks`. Precondition: `dp_ranks` has one
/// element per DP rank.
void add_common_figures(StepPicture& picture, const LengthTable& table, const PlanSettings& settings);

/// Returns the number of rows if all samples formed one padded batch: the number of samples times the longest
/// aligned length.
[[nodiscard]] std::int64_t padded_rows(const LengthTable& table, std::int64_t alignment);

/// Returns the picture of a plan that has not been executed, without times and bytes. `plan` must be a plan
/// for this problem, and `repeated` must contain the plan's repeated prefix tokens.
[[nodiscard]] StepPicture picture_of(const StepProblem& problem, const StepPlan& plan,
                                     const RepeatedTokens& repeated);

}  // namespace evenkeel
