#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "evenkeel/plan/outlier_delay.hpp"

namespace evenkeel {

/// How samples are cut into global batches.
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
  std::int64_t epochs = 1;   ///< how often it is run through in one of the schedule's epochs
  std::int64_t weight = 1;   ///< its share of what is drawn, against the others' weights; below 2^31
  /// What a sample counts for in the share, by its position in the list, such as its tokens; unset: 1. Below
  /// 2^40.
  std::function<std::int64_t(std::int64_t)> size = {};

  [[nodiscard]] std::int64_t draws() const noexcept { return samples * epochs; }
};

/// Which samples make up each step. A pure function of the sources and the settings: the same on every rank,
/// for every rank count and on every platform. Step t of an epoch is draws [t * global_batch, (t + 1) *
/// global_batch) of it; the last one may be smaller.
///
/// Several sources are drawn into one list, so that at every moment each has had its weight's share of what
/// was drawn, to within a sample of each; one that has run out leaves the others theirs. A source comes in
/// its own order, once through or as often as its epochs say, drawn anew each time where there is a shuffle.
/// Who is next: the source that would be least ahead of its share when half of its next sample is counted, (2
/// drawn + size) / weight, the first of equals: the rule of Webster and Sainte-Lague for seats, one by one.
///
/// Example: 10 samples, global_batch 4: steps of 4, 4 and 2 samples an epoch. Weights 3 and 1 draw a, a, b,
/// a, a, a, b, a, ...
///
/// Where outliers are delayed, an epoch's steps form windows of DelaySettings::steps + 1, in each of which
/// outliers wait for companions and others come in their places, so that steps keep their numbers of samples
/// and a window its samples. That depends on the lengths in the window and on OutlierDelay::plan, and on
/// nothing that happened before: a job that goes on from any step makes the same steps.
class BatchSchedule {
 public:
  /// Throws ConfigError that names the key when a setting is out of range or there are more steps than 63
  /// bits count, InputError when there are no samples, or fewer than a global batch and the last one is to be
  /// dropped.
  BatchSchedule(std::int64_t num_samples, const ScheduleSettings& settings);
  /// The same for several sources, of which none is empty. Precondition: a delay that is on has everything
  /// else set, two companions or more, and a plan for so many DP ranks.
  BatchSchedule(std::vector<ScheduledSource> sources, const ScheduleSettings& settings,
                OutlierDelay delay = {});
  BatchSchedule(BatchSchedule&&) noexcept;
  BatchSchedule& operator=(BatchSchedule&&) noexcept;
  ~BatchSchedule();

  [[nodiscard]] std::int64_t steps_per_epoch() const noexcept;
  [[nodiscard]] std::int64_t num_steps() const noexcept { return steps_per_epoch() * settings_.epochs; }
  /// Samples of a step over all ranks. Precondition: 0 <= step < num_steps().
  [[nodiscard]] std::int64_t size_of(std::int64_t step) const noexcept;

  /// The positions (0-based) that rank `rank` of `num_ranks` reads for a step, in the sources' lists one
  /// behind the other: an equal, contiguous share of it. O(share), plus O(samples) when a new epoch is
  /// shuffled. With several sources O(samples of the step) where steps are asked for in order, O(samples
  /// since the epoch began) where they are not. With a delay, the first step of a window that is asked for
  /// also costs some plans of each of its steps; throws as plan_step does.
  [[nodiscard]] std::vector<std::int64_t> share_of(std::int64_t step, int rank, int num_ranks);

  /// What the delay did to a step; nothing without one. Fast for steps that share_of() was called for since
  /// the latest step that this was called for; as share_of() for others. Precondition: 0 <= step <
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
  std::unique_ptr<Delayed> delayed_;  // none where outliers do not wait
};

}  // namespace evenkeel
