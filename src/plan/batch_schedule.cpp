#include "evenkeel/plan/batch_schedule.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/checks.hpp"
#include "plan/seeded_order.hpp"

namespace evenkeel {

using plan_checks::require_at_least;

BatchSchedule::BatchSchedule(std::int64_t num_samples, const ScheduleSettings& settings)
    : num_samples_(num_samples), settings_(settings) {
  require_at_least(1, settings.global_batch, "batch.global_batch");
  require_at_least(1, settings.epochs, "batch.epochs");
  if (num_samples < 1) throw InputError("source", "has no samples", "Give a source with at least one sample");
  if (steps_per_epoch() == 0) {
    throw InputError("source",
                     "has " + number_of(num_samples, "sample") + ", fewer than batch.global_batch " +
                         std::to_string(settings.global_batch) + ", and batch.drop_last leaves nothing",
                     "Lower batch.global_batch or set batch.drop_last: false");
  }
  if (settings.epochs > std::numeric_limits<std::int64_t>::max() / steps_per_epoch()) {
    throw ConfigError("batch.epochs",
                      std::to_string(settings.epochs) + " epochs of " + std::to_string(steps_per_epoch()) +
                          " steps each are more steps than can be counted",
                      "Lower batch.epochs");
  }
}

std::int64_t BatchSchedule::steps_per_epoch() const noexcept {
  const std::int64_t whole = num_samples_ / settings_.global_batch;
  const bool has_rest = num_samples_ % settings_.global_batch != 0;
  return has_rest && !settings_.drop_last ? whole + 1 : whole;
}

std::int64_t BatchSchedule::size_of(std::int64_t step) const noexcept {
  EVENKEEL_PRECONDITION(cheap, 0 <= step && step < num_steps(), step, num_steps());
  const std::int64_t first = step % steps_per_epoch() * settings_.global_batch;
  return std::min(settings_.global_batch, num_samples_ - first);
}

std::vector<std::int64_t> BatchSchedule::share_of(std::int64_t step, int rank, int num_ranks) {
  const std::int64_t first = step % steps_per_epoch() * settings_.global_batch;
  const std::int64_t size = size_of(step);
  const auto cut = [&](std::int64_t r) {
    return first + r * (size / num_ranks) + std::min(r, size % num_ranks);
  };
  std::vector<std::int64_t> positions(static_cast<std::size_t>(cut(rank + 1) - cut(rank)));
  std::iota(positions.begin(), positions.end(), cut(rank));
  if (settings_.shuffle) {
    shuffle_for(step / steps_per_epoch());
    for (std::int64_t& position : positions) position = order_[static_cast<std::size_t>(position)];
  }
  return positions;
}

void BatchSchedule::shuffle_for(std::int64_t epoch) {
  if (shuffled_epoch_ == epoch) return;
  order_ = seeded_order(num_samples_, settings_.seed, {static_cast<std::uint64_t>(epoch)});
  shuffled_epoch_ = epoch;
}

}  // namespace evenkeel
