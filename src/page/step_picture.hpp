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

/// A micro-batch of a DP rank, as planned.
struct MicroBatchPicture {
  std::int64_t samples = 0;
  std::int64_t tokens = 0;  ///< true tokens, shared ones once
  std::int64_t rows = 0;    ///< after alignment or padding
  std::int64_t cost = 0;
  std::int64_t longest = 0;     ///< tokens of its longest sample
  std::int64_t mini_batch = 0;  ///< the optimizer update it belongs to
  std::int64_t first_rank = 0;  ///< of the DP ranks that run it together
  std::int64_t ranks = 1;       ///< how many these are

  friend bool operator==(const MicroBatchPicture&, const MicroBatchPicture&) = default;
};

/// What a DP rank has of a step, and what it would have in source order.
struct DpRankPicture {
  std::int64_t cost_before = 0;
  std::int64_t tokens_before = 0;
  std::int64_t speed = 1000;  ///< in thousandths; 1000 where costs are times
  std::vector<MicroBatchPicture> micro_batches;

  [[nodiscard]] std::int64_t sum(std::int64_t MicroBatchPicture::*figure) const noexcept;
  /// Work as time: that of a rank of speed 1000.
  [[nodiscard]] double time_of(std::int64_t cost) const noexcept {
    return static_cast<double>(cost) * 1000 / static_cast<double>(speed);
  }
};

/// What one rank of the world did for a step.
struct RankPicture {
  PhaseTimes seconds{};
  double waited = 0;            ///< of these, seconds that its trainer waited
  std::int64_t peak_bytes = 0;  ///< most that its tensors took at a time so far
  std::int64_t sent_bytes = 0;  ///< to other ranks
  std::int64_t kept_bytes = 0;  ///< from itself to itself
};

/// Bytes from rank to rank, in the memory of a small table: of many ranks, equally many neighbours share a
/// line.
struct LinkPicture {
  static constexpr int most_lines = 64;

  int ranks = 0;                    ///< of the world
  int ranks_per_line = 1;           ///< the last line may have fewer
  std::vector<std::int64_t> bytes;  ///< by sender's line, then by receiver's

  [[nodiscard]] static LinkPicture of(int ranks);
  [[nodiscard]] int lines() const noexcept { return (ranks + ranks_per_line - 1) / ranks_per_line; }
  LinkPicture& operator+=(const LinkPicture& other);
};

/// What advice needs to know of how a step was planned.
struct PlanningPicture {
  std::int64_t cap = 0;
  std::int64_t alignment = 1;
  bool in_source_order = false;  ///< balance.algorithm: none
  std::string preset;            ///< of balance.preset; empty: none
  bool equal_count = false;
  bool pads_micro_batches = false;
  bool shares_prefixes = false;
  bool has_fixed_micro_batches = false;
  bool asks_for_more = false;  ///< micro_batch.count, min_count or multiple_of may ask for more than needed
  bool may_be_a_grid = false;  ///< it is none, and balance.strategy: grid goes with the other settings
  std::string cost;            ///< what work is, in words
};

/// One pass over a step, over all ranks: what the page shows of it.
struct StepPicture : PassFigures {
  std::int64_t step = 0;
  std::string profile;
  PlanningPicture planning;
  std::int64_t costliest_sample = 0;  ///< its work alone; 0 where samples share prefixes

  std::vector<std::int64_t> lengths;  ///< of all samples
  std::vector<DpRankPicture> dp_ranks;

  // Nothing of these in a plan.
  std::vector<RankPicture> ranks;  ///< of the world
  std::optional<LinkPicture> links;
};

/// What a DP rank has of a micro-batch: all of it, or its part where micro-batches have groups of their own.
[[nodiscard]] MicroBatchPicture picture_of(const LengthTable& table, const MicroBatchPlan& plan,
                                           const PlanSettings& settings, DpRank rank);
[[nodiscard]] PlanningPicture picture_of(const PlanSettings& settings);

/// Counts a DP rank's micro-batches in. The mean work of all, and so `balance`, is told apart.
void count_in(PassFigures& figures, const std::vector<MicroBatchPicture>& of_rank, std::int64_t cap);

/// What is the same in a plan and in a run: fills in how it was planned and what follows from the lengths.
/// Speeds and what DP ranks would have in source order go to `dp_ranks`. Precondition: one of them a DP rank.
void describe(StepPicture& picture, const LengthTable& table, const PlanSettings& settings);

/// The samples' rows in a padded batch: their number times the longest, aligned.
[[nodiscard]] std::int64_t padded_rows(const LengthTable& table, std::int64_t alignment);

/// The picture of a plan that nobody has carried out: no seconds, no bytes. `plan` is of this problem, and
/// `repeated` are the tokens that its units repeat.
[[nodiscard]] StepPicture picture_of(const StepProblem& problem, const StepPlan& plan,
                                     const RepeatedTokens& repeated);

}  // namespace evenkeel
