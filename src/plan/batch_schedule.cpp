#include "evenkeel/plan/batch_schedule.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

// A number in [0, bound) without bias, from the engine alone: std::uniform_int_distribution and std::shuffle
// may differ between standard libraries.
std::uint64_t below(std::uint64_t bound, std::mt19937_64& engine) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t last_whole_range = most - most % bound;
  std::uint64_t drawn = engine();
  while (drawn >= last_whole_range) drawn = engine();
  return drawn % bound;
}

void require_at_least_one(std::int64_t value, const char* key) {
  if (value < 1) throw ConfigError(key, "is " + std::to_string(value) + "; it must be at least 1");
}

}  // namespace

BatchSchedule::BatchSchedule(std::int64_t num_samples, const ScheduleSettings& settings)
    : num_samples_(num_samples), settings_(settings) {
  require_at_least_one(settings.global_batch, "batch.global_batch");
  require_at_least_one(settings.epochs, "batch.epochs");
  if (num_samples < 1) throw InputError("source", "has no samples", "Give a source with at least one sample");
  if (steps_per_epoch() == 0) {
    throw InputError("source",
                     "has " + std::to_string(num_samples) + " samples, fewer than batch.global_batch " +
                         std::to_string(settings.global_batch) + ", and batch.drop_last leaves nothing",
                     "Lower batch.global_batch or set batch.drop_last: false");
  }
}

std::int64_t BatchSchedule::steps_per_epoch() const noexcept {
  const std::int64_t whole = num_samples_ / settings_.global_batch;
  const bool has_rest = num_samples_ % settings_.global_batch != 0;
  return has_rest && !settings_.drop_last ? whole + 1 : whole;
}

std::int64_t BatchSchedule::size_of(std::int64_t step) const noexcept {
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
  order_.resize(static_cast<std::size_t>(num_samples_));
  std::iota(order_.begin(), order_.end(), std::int64_t{0});
  std::seed_seq seeds{settings_.seed >> 32, settings_.seed & 0xffffffff, static_cast<std::uint64_t>(epoch)};
  std::mt19937_64 engine(seeds);
  for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[below(i, engine)]);
  shuffled_epoch_ = epoch;
}

}  // namespace evenkeel
