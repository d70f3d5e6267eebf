#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "page/step_picture.hpp"

namespace evenkeel {

/// The process grid as reports show it.
struct MeshPicture {
  GridPoint sizes{};
  bool flexible_cp = false;  ///< micro-batches have groups of their own, and the grid has no cp

  friend bool operator==(const MeshPicture&, const MeshPicture&) = default;
};

/// Such as "tp 1 x cp flexible x dp 8 x pp 1".
[[nodiscard]] std::string to_text(const MeshPicture& mesh);
/// One key an axis: its size, or "flexible" for cp.
[[nodiscard]] nlohmann::json to_json(const MeshPicture& mesh);

/// How many samples have which length, for any lengths in the memory of a few numbers: bins of equal width,
/// the least power of two with which `most_bins` hold the longest. Exact: widths grow by merging pairs.
class LengthHistogram {
 public:
  static constexpr std::int64_t most_bins = 64;

  /// Precondition: length >= 0.
  void add(std::int64_t length);

  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  /// Samples of lengths [i * width, (i + 1) * width), up to the longest.
  [[nodiscard]] const std::vector<std::int64_t>& samples() const noexcept { return samples_; }
  [[nodiscard]] const std::vector<std::int64_t>& tokens() const noexcept { return tokens_; }
  [[nodiscard]] std::int64_t shortest() const noexcept { return shortest_; }
  [[nodiscard]] std::int64_t longest() const noexcept { return longest_; }

 private:
  void widen();

  std::int64_t width_ = 1;
  std::vector<std::int64_t> samples_;
  std::vector<std::int64_t> tokens_;
  std::int64_t shortest_ = 0;
  std::int64_t longest_ = 0;
};

/// What a DP rank had over all steps. Times are work over speed, as the step was planned.
struct DpRankTotals {
  std::int64_t samples = 0, tokens = 0, rows = 0, cost = 0;
  std::int64_t cost_before = 0, tokens_before = 0;
  double time = 0;
  double waits_at_end = 0;   ///< if DP ranks meet at the end of each step
  double waits_at_each = 0;  ///< if they meet after every micro-batch
};

/// What a step adds to lines over all steps.
struct StepPoint : PassFigures {
  std::int64_t step = 0;

  [[nodiscard]] bool trains_nothing() const noexcept { return loss_tokens == 0 && samples + left_out > 0; }
};

/// The micro-batches of one step, kept to be shown one by one.
struct KeptStep {
  std::int64_t step = 0;
  double waiting = 0;  ///< share of the step that an average DP rank waits, meeting after every micro-batch
  std::vector<DpRankPicture> dp_ranks;
};

/// All passes of a run under one profile, in memory that grows by a StepPoint a step.
class RunPicture {
 public:
  /// Steps whose micro-batches are kept: the first, the latest, and those that wait longest.
  static constexpr std::size_t most_kept_steps = 8;
  /// Micro-batches of one kept step. With more, DP ranks that take least and most stay.
  static constexpr std::size_t most_kept_micro_batches = 20'000;

  void add(const StepPicture& step);

  [[nodiscard]] const std::string& profile() const noexcept { return profile_; }
  [[nodiscard]] const PlanningPicture& planning() const noexcept { return planning_; }
  [[nodiscard]] const std::vector<DpRankTotals>& dp_ranks() const noexcept { return dp_ranks_; }
  [[nodiscard]] const std::vector<RankPicture>& ranks() const noexcept { return ranks_; }
  [[nodiscard]] const std::optional<LinkPicture>& links() const noexcept { return links_; }
  [[nodiscard]] const LengthHistogram& lengths() const noexcept { return lengths_; }
  [[nodiscard]] const std::vector<StepPoint>& points() const noexcept { return points_; }
  [[nodiscard]] const PassTotals& totals() const noexcept { return totals_; }
  /// By number of the step.
  [[nodiscard]] std::vector<KeptStep> kept_steps() const;

  /// Sums over steps of the time of the DP rank that takes longest, of the costliest first, second, ...
  /// micro-batches, and of the costliest sample.
  [[nodiscard]] double longest_time() const noexcept { return longest_time_; }
  [[nodiscard]] double meeting_time() const noexcept { return meeting_time_; }
  [[nodiscard]] double mean_time() const noexcept;
  /// Steps in which one sample alone takes longer than a DP rank's mean work, and than a mean micro-batch.
  [[nodiscard]] std::int64_t steps_with_a_giant() const noexcept { return giants_; }
  [[nodiscard]] std::int64_t steps_with_a_large_sample() const noexcept { return large_; }

 private:
  void add_times(const StepPicture& step);
  void add_ranks(const StepPicture& step);
  void keep(const StepPicture& step);

  std::string profile_;
  PlanningPicture planning_;
  std::vector<DpRankTotals> dp_ranks_;
  std::vector<RankPicture> ranks_;
  std::optional<LinkPicture> links_;
  LengthHistogram lengths_;
  std::vector<StepPoint> points_;
  PassTotals totals_;
  std::optional<KeptStep> first_, latest_;
  std::vector<KeptStep> worst_;  // by falling waiting
  double longest_time_ = 0, meeting_time_ = 0;
  std::int64_t giants_ = 0, large_ = 0;
};

}  // namespace evenkeel
