#pragma once

#include <cstdint>
#include <vector>

namespace evenkeel {

/// How a source's samples are cut into global batches.
struct ScheduleSettings {
  std::int64_t global_batch = 256;  ///< samples of one step over all ranks
  std::int64_t epochs = 1;
  bool shuffle = false;
  std::uint64_t seed = 1;  ///< of the shuffle; every epoch has its own order
  bool drop_last = false;  ///< leave out an epoch's last, smaller batch

  friend bool operator==(const ScheduleSettings&, const ScheduleSettings&) = default;
};

/// Which samples of a source make up each step. A pure function of the number of samples and the settings:
/// the same on every rank, for every rank count and on every platform. Step t of an epoch is positions [t *
/// global_batch, (t + 1) * global_batch) of the epoch's order; the last one may be smaller.
///
/// Example: 10 samples, global_batch 4: steps of 4, 4 and 2 samples an epoch.
class BatchSchedule {
 public:
  /// Throws ConfigError that names the key when a setting is out of range or there are more steps than 63
  /// bits count, InputError when there are no samples, or fewer than a global batch and the last one is to be
  /// dropped.
  BatchSchedule(std::int64_t num_samples, const ScheduleSettings& settings);

  [[nodiscard]] std::int64_t steps_per_epoch() const noexcept;
  [[nodiscard]] std::int64_t num_steps() const noexcept { return steps_per_epoch() * settings_.epochs; }
  /// Samples of a step over all ranks. Precondition: 0 <= step < num_steps().
  [[nodiscard]] std::int64_t size_of(std::int64_t step) const noexcept;

  /// The source positions (0-based) that rank `rank` of `num_ranks` reads for a step: an equal, contiguous
  /// share of it. O(share), plus O(samples) when a new epoch is shuffled.
  [[nodiscard]] std::vector<std::int64_t> share_of(std::int64_t step, int rank, int num_ranks);

 private:
  void shuffle_for(std::int64_t epoch);

  std::int64_t num_samples_;
  ScheduleSettings settings_;
  std::int64_t shuffled_epoch_ = -1;
  std::vector<std::int64_t> order_;  // of the shuffled epoch; empty when there is no shuffle
};

}  // namespace evenkeel
