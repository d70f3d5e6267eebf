#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "evenkeel/plan/outlier_delay.hpp"

namespace evenkeel {

/// How samples are divided into global batches.
struct ScheduleSettings {
  std::int64_t global_batch = 256;  ///< number of samples of one step over all ranks
  std::int64_t epochs = 1;
  bool shuffle = false;
  std::uint64_t seed = 1;  ///< seed of the shuffle; every epoch has its own order
  bool drop_last = false;  ///< whether to drop an epoch's last batch if it is smaller

  friend bool operator==(const ScheduleSettings&, const ScheduleSettings&) = default;
};

/// One of the lists of samples that a schedule draws from.
struct ScheduledSource {
  std::int64_t samples = 0;  ///< number of samples in the list
  std::int64_t epochs = 1;   ///< number of times the list is read in one of the schedule's epochs
  std::int64_t weight = 1;   ///< share of the draws, relative to the others' weights; below 2^31
  /// Returns how much a sample counts toward the share, such as its number of tokens, given its position in
  /// the list; below 2^40. Each sample counts 1 if unset.
  std::function<std::int64_t(std::int64_t)> size = {};

  [[nodiscard]] std::int64_t draws() const noexcept { return samples * epochs; }
};

/// Determines the samples of each step. A pure function of the sources and the settings: the same on every
/// rank, for every number of ranks and on every platform. Step t of an epoch has the epoch's draws from t *
/// global_batch up to, but not including, (t + 1) * global_batch; the last step may be smaller.
///
/// If there are several sources, their samples are drawn into one list such that, at any point, each source's
/// share of the draws is close to its weight: for two or three sources, to within one sample. When a source
/// runs out, the others continue. A source is drawn in its own order, as many times as its number of epochs,
/// and shuffled again each time if shuffling is on. The next source is the one that would be least ahead of
/// its share with half of its next sample counted, (2 drawn + size) / weight, with ties by index: the rule of
/// Webster and Sainte-Lague for assigning seats.
///
/// Example: 10 samples, global_batch 4: steps of 4, 4 and 2 samples per epoch. Weights 3 and 1 draw a, a, b,
/// a, a, a, b, a, ...
///
/// If outliers are delayed, an epoch's steps form windows of DelaySettings::steps + 1. In each window,
/// outliers wait for others of similar size, and other samples take their places, so the number of samples of
/// each step and the samples of the window do not change. This depends only on the lengths in the window and
/// on OutlierDelay::plan, not on earlier steps, so a job that resumes from any step makes the same steps.
class BatchSchedule {
 public:
  /// Throws ConfigError naming the key if a setting is out of range or there are more steps than 63 bits can
  /// count, and InputError if there are no samples, or with drop_last, fewer than a global batch.
  BatchSchedule(std::int64_t num_samples, const ScheduleSettings& settings);
  /// Makes the schedule of several sources, none of which may be empty. Throws ConfigError and InputError
  /// like the other constructor. Precondition: a delay that is on has all other members set,
  /// outliers_per_step >= 2, and a plan for that number of DP ranks.
  BatchSchedule(std::vector<ScheduledSource> sources, const ScheduleSettings& settings,
                OutlierDelay delay = {});
  BatchSchedule(BatchSchedule&&) noexcept;
  BatchSchedule& operator=(BatchSchedule&&) noexcept;
  ~BatchSchedule();

  [[nodiscard]] std::int64_t steps_per_epoch() const noexcept;
  [[nodiscard]] std::int64_t num_steps() const noexcept { return steps_per_epoch() * settings_.epochs; }
  /// Returns the number of samples of a step over all ranks. Precondition: 0 <= step < num_steps().
  [[nodiscard]] std::int64_t size_of(std::int64_t step) const noexcept;

  /// Returns the positions (0-based) that rank `rank` of `num_ranks` reads for a step, in the concatenation
  /// of the sources' lists: an equal, contiguous share of the step. O(share), plus O(samples) when a new
  /// epoch is shuffled. With several sources, O(samples of the step) for steps in order, otherwise O(samples
  /// since the epoch began). With a delay, the first requested step of a window also costs several plans of
  /// each of its steps, and throws the errors of plan_step().
  [[nodiscard]] std::vector<std::int64_t> share_of(std::int64_t step, int rank, int num_ranks);

  /// Returns the effect of the delay on a step; all figures are 0 without a delay. Fast if share_of() was
  /// called for the step and this function was not called for a later one; otherwise as slow as share_of().
  /// Precondition: 0 <= step < num_steps().
  [[nodiscard]] DelayFigures delay_of(std::int64_t step);

 private:
  class Blend;
  class DelayedWindow;

  [[nodiscard]] std::int64_t first_draw_of(std::int64_t step) const noexcept {
    return step % steps_per_epoch() * settings_.global_batch;
  }
  [[nodiscard]] std::vector<std::int64_t> draw_positions(std::int64_t step, std::int64_t first,
                                                         std::int64_t count);
  void arrange_window_of(std::int64_t step);

  ScheduleSettings settings_;
  std::int64_t draws_ = 0;  // number of draws of an epoch
  std::unique_ptr<Blend> blend_;
  std::unique_ptr<DelayedWindow> delayed_window_;  // null unless outliers are delayed
};

}  // namespace evenkeel
