#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "evenkeel/plan/outlier_delay.hpp"

namespace evenkeel {

/// How samples are divided into global batches.
struct ScheduleSettings {
  std::int64_t global_batch = 256;  ///< samples of one step over all ranks
  std::int64_t epochs = 1;
  bool shuffle = false;
  std::uint64_t seed = 1;  ///< of the shuffle; every epoch has its own order
  bool drop_last = false;  ///< leave out an epoch's last, smaller batch

  friend bool operator==(const ScheduleSettings&, const ScheduleSettings&) = default;
};

/// One of the lists of samples that a schedule draws from.
struct ScheduledSource {
  std::int64_t samples = 0;  ///< of the list
  std::int64_t epochs = 1;   ///< how often it is read in one of the schedule's epochs
  std::int64_t weight = 1;   ///< its share of what is drawn, relative to the others' weights; below 2^31
  /// What a sample counts in the share, by its position in the list, such as its tokens; unset: 1. Below
  /// 2^40.
  std::function<std::int64_t(std::int64_t)> size = {};

  [[nodiscard]] std::int64_t draws() const noexcept { return samples * epochs; }
};

/// Which samples make up each step. A pure function of the sources and the settings: the same on every rank,
/// for every number of ranks and on every platform. Step t of an epoch is its draws [t * global_batch, (t +
/// 1) * global_batch); the last step may be smaller.
///
/// Several sources are drawn into one list, so that at every moment each has had its weight's share of what
/// was drawn, to within a sample of each; when one runs out, the others continue with theirs. A source comes
/// in its own order, as many times as its epochs say, shuffled again each time if there is a shuffle. The
/// next source is the one that would be least ahead of its share with half of its next sample counted, (2
/// drawn + size) / weight, ties by index: the rule of Webster and Sainte-Lague for assigning seats.
///
/// Example: 10 samples, global_batch 4: steps of 4, 4 and 2 samples an epoch. Weights 3 and 1 draw a, a, b,
/// a, a, a, b, a, ...
///
/// If outliers are delayed, an epoch's steps form windows of DelaySettings::steps + 1. In each window
/// outliers wait for companions and others take their places, so that steps keep their numbers of samples and
/// a window its samples. That depends only on the lengths in the window and on OutlierDelay::plan, not on
/// earlier steps: a job that resumes from any step makes the same steps.
class BatchSchedule {
 public:
  /// Throws ConfigError that names the key if a setting is out of range or there are more steps than
  /// 63 bits can count, InputError if there are no samples, or fewer than a global batch with
  /// drop_last.
  BatchSchedule(std::int64_t num_samples, const ScheduleSettings& settings);
  /// The same for several sources, none of them empty. Precondition: a delay that is on has everything else
  /// set, at least two companions, and a plan for that many DP ranks.
  BatchSchedule(std::vector<ScheduledSource> sources, const ScheduleSettings& settings,
                OutlierDelay delay = {});
  BatchSchedule(BatchSchedule&&) noexcept;
  BatchSchedule& operator=(BatchSchedule&&) noexcept;
  ~BatchSchedule();

  [[nodiscard]] std::int64_t steps_per_epoch() const noexcept;
  [[nodiscard]] std::int64_t num_steps() const noexcept { return steps_per_epoch() * settings_.epochs; }
  /// Samples of a step over all ranks. Precondition: 0 <= step < num_steps().
  [[nodiscard]] std::int64_t size_of(std::int64_t step) const noexcept;

  /// The positions (0-based) that rank `rank` of `num_ranks` reads for a step, in the concatenation of the
  /// sources' lists: an equal, contiguous share of it. O(share), plus O(samples) when a new epoch is
  /// shuffled. With several sources O(samples of the step) for steps in order, O(samples since the epoch
  /// began) otherwise. With a delay, the first requested step of a window also costs some plans of each of
  /// its steps; throws as plan_step does.
  [[nodiscard]] std::vector<std::int64_t> share_of(std::int64_t step, int rank, int num_ranks);

  /// What the delay did to a step; nothing without a delay. Fast for steps for which share_of() was called
  /// since the last call of this function; as slow as share_of() for others. Precondition: 0 <= step <
  /// num_steps().
  [[nodiscard]] DelayFigures delay_of(std::int64_t step);

 private:
  class Blend;
  class Delayed;

  [[nodiscard]] std::int64_t first_draw_of(std::int64_t step) const noexcept {
    return step % steps_per_epoch() * settings_.global_batch;
  }
  [[nodiscard]] std::vector<std::int64_t> drawn(std::int64_t step, std::int64_t first, std::int64_t count);
  void arrange_window_of(std::int64_t step);

  ScheduleSettings settings_;
  std::int64_t draws_ = 0;  // of an epoch
  std::unique_ptr<Blend> blend_;
  std::unique_ptr<Delayed> delayed_;  // none unless outliers wait
};

}  // namespace evenkeel
