#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/settings.hpp"
#include "evenkeel/plan/step_plan.hpp"

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

/// The phases of making a step, in the order of PhaseSeconds.
inline constexpr std::array<const char*, 6> phase_names{"read",  "gather",   "plan",
                                                        "agree", "exchange", "pack"};
using PhaseTimes = std::array<double, phase_names.size()>;

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

  int ranks = 0;                    ///< of the world, data ranks last
  int data_ranks = 0;               ///< of these
  int ranks_per_line = 1;           ///< the last line may have fewer
  std::vector<std::int64_t> bytes;  ///< by sender's line, then by receiver's

  [[nodiscard]] static LinkPicture of(int ranks, int data_ranks = 0);
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
struct StepPicture {
  std::int64_t step = 0;
  std::string profile;
  PlanningPicture planning;

  std::int64_t samples = 0;
  std::int64_t tokens = 0;         ///< true tokens
  std::int64_t filled = 0;         ///< rows that hold a token; shared ones once
  std::int64_t rows = 0;           ///< handed out
  std::int64_t padded_rows = 0;    ///< in a padded batch
  std::int64_t unshared_rows = 0;  ///< what `rows` would be without sharing
  std::int64_t micro_batches = 0;  ///< K, of each DP rank
  std::int64_t lower_bound = 0;
  std::int64_t empty = 0;  ///< over all DP ranks, as below
  std::int64_t above_cap = 0;
  std::int64_t widest = 0;
  std::int64_t costliest_sample = 0;  ///< its work alone; 0 where samples share prefixes
  double max_over_mean_before = 1;
  StepBalance balance;

  std::vector<std::int64_t> lengths;  ///< of all samples
  std::vector<DpRankPicture> dp_ranks;

  // Nothing of the rest in a plan.
  std::vector<RankPicture> ranks;  ///< of the world
  std::optional<LinkPicture> links;
  PhaseTimes seconds{};  ///< means over ranks
  PhaseTimes slowest{};  ///< of each phase by itself, the rank's that took longest
  double waited = 0;     ///< mean over ranks
  std::int64_t sent_bytes = 0, node_bytes = 0, kept_bytes = 0, copied_bytes = 0;
  std::int64_t peak_bytes = 0;  ///< on the rank with most
};

/// What a DP rank has of a micro-batch: all of it, or its part where micro-batches have groups of their own.
[[nodiscard]] MicroBatchPicture picture_of(const LengthTable& table, const MicroBatchPlan& plan,
                                           const PlanSettings& settings, DpRank rank);
[[nodiscard]] PlanningPicture picture_of(const PlanSettings& settings);

/// What is the same in a plan and in a run: fills in what follows from the lengths, and counts what
/// `dp_ranks` has. Speeds and what DP ranks would have in source order go to `dp_ranks`. Precondition: one
/// of them a DP rank, and `unshared_rows` and `padded_rows` are set.
void complete(StepPicture& picture, const LengthTable& table, const PlanSettings& settings);

/// The samples' rows in a padded batch: their number times the longest, aligned.
[[nodiscard]] std::int64_t padded_rows(const LengthTable& table, std::int64_t alignment);

}  // namespace evenkeel
