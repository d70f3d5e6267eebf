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

/// Process grid, as shown in reports.
struct MeshPicture {
  GridPoint sizes{};
  /// Whether CP groups may differ in size. In that case, the grid does not have a fixed cp axis.
  bool flexible_cp = false;

  friend bool operator==(const MeshPicture&, const MeshPicture&) = default;
};

/// Formats the mesh, such as "tp 1 x cp flexible x dp 8 x pp 1".
[[nodiscard]] std::string to_text(const MeshPicture& mesh);
/// Converts the mesh to JSON: the size of each axis, or "flexible" for cp.
[[nodiscard]] nlohmann::json to_json(const MeshPicture& mesh);

/// Histogram of sample lengths in bounded memory. All bins have the same width, which is the smallest power
/// of two with which `most_bins` bins cover the longest length. Counts remain exact when the width grows,
/// because pairs of bins are merged.
class LengthHistogram {
 public:
  static constexpr std::int64_t most_bins = 64;

  /// Precondition: length >= 0.
  void add(std::int64_t length);

  [[nodiscard]] std::int64_t width() const noexcept { return width_; }
  /// Returns the number of samples in each bin. Bin i covers the lengths in [i * width(), (i + 1) * width()).
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

/// Totals of a DP rank over all steps. Times are planned, not measured: they are the work divided by the
/// rank's speed.
struct DpRankTotals {
  std::int64_t samples = 0, tokens = 0, rows = 0, cost = 0;
  std::int64_t cost_before = 0, tokens_before = 0;
  double time = 0;
  double waits_at_end = 0;   ///< waiting time if DP ranks synchronize only at the end of each step
  double waits_at_each = 0;  ///< waiting time if DP ranks synchronize after every micro-batch
};

/// Data of one step for charts that show all steps.
struct StepPoint : PassFigures {
  std::int64_t step = 0;

  [[nodiscard]] bool has_no_loss() const noexcept { return loss_tokens == 0 && samples + left_out > 0; }
};

/// A step that is kept with its micro-batches, to be shown in detail.
struct KeptStep {
  std::int64_t step = 0;
  /// Fraction of the step during which an average DP rank waits if ranks synchronize after every micro-batch.
  double waiting = 0;
  std::vector<DpRankPicture> dp_ranks;
};

/// Data of all passes of a run under one profile: a kind of pass, such as log_prob, or a strategy of a
/// comparison. Memory grows by only one StepPoint per step.
class RunPicture {
 public:
  /// Maximum number of steps whose micro-batches are kept: the first and the latest step, and the steps with
  /// the longest waits.
  static constexpr std::size_t max_kept_steps = 8;
  /// Maximum number of micro-batches of one kept step. If a step has more, only its slowest and fastest DP
  /// ranks keep their micro-batches.
  static constexpr std::size_t max_kept_micro_batches = 20'000;

  void add(const StepPicture& step);

  [[nodiscard]] const std::string& profile() const noexcept { return profile_; }
  [[nodiscard]] const PlanningPicture& planning() const noexcept { return planning_; }
  [[nodiscard]] const std::vector<DpRankTotals>& dp_ranks() const noexcept { return dp_ranks_; }
  [[nodiscard]] const std::vector<RankPicture>& ranks() const noexcept { return ranks_; }
  [[nodiscard]] const std::optional<LinkPicture>& links() const noexcept { return links_; }
  [[nodiscard]] const LengthHistogram& lengths() const noexcept { return lengths_; }
  [[nodiscard]] const std::vector<StepPoint>& points() const noexcept { return points_; }
  [[nodiscard]] const PassTotals& totals() const noexcept { return totals_; }
  /// Returns the kept steps in ascending order of step number.
  [[nodiscard]] std::vector<KeptStep> kept_steps() const;

  /// Return planned times, summed over all steps. A step contributes the time of its slowest DP rank to
  /// longest_time(), the mean time of its DP ranks to mean_time(), and the sum over all m of the longest m-th
  /// micro-batch of any DP rank to meeting_time().
  [[nodiscard]] double longest_time() const noexcept { return longest_time_; }
  [[nodiscard]] double meeting_time() const noexcept { return meeting_time_; }
  [[nodiscard]] double mean_time() const noexcept;
  /// Return the number of steps in which a single sample takes longer than the mean time of a DP rank
  /// (giant), or more than 2 % longer than an average micro-batch (large).
  [[nodiscard]] std::int64_t num_giant_sample_steps() const noexcept { return giant_sample_steps_; }
  [[nodiscard]] std::int64_t num_large_sample_steps() const noexcept { return large_sample_steps_; }

 private:
  void add_times(const StepPicture& step);
  void add_ranks(const StepPicture& step);
  void update_kept_steps(const StepPicture& step);

  std::string profile_;
  PlanningPicture planning_;
  std::vector<DpRankTotals> dp_ranks_;
  std::vector<RankPicture> ranks_;
  std::optional<LinkPicture> links_;
  LengthHistogram lengths_;
  std::vector<StepPoint> points_;
  PassTotals totals_;
  std::optional<KeptStep> first_, latest_;
  // The kept steps other than the first and the latest, in descending order of `waiting`.
  std::vector<KeptStep> worst_;
  double longest_time_ = 0, meeting_time_ = 0;
  std::int64_t giant_sample_steps_ = 0, large_sample_steps_ = 0;
};

}  // namespace evenkeel
