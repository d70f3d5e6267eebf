#include "evenkeel/plan/batch_schedule.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/schedule/blend.hpp"
#include "plan/schedule/delayed_window.hpp"
#include "plan/settings/checks.hpp"

namespace evenkeel {
namespace {

using plan_checks::require_at_least;

// Keeps products within 128 bits when shares are compared.
constexpr std::int64_t largest_weight = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t max_draws = std::int64_t{1} << 60;

std::int64_t count_draws(const std::vector<ScheduledSource>& sources) {
  std::int64_t draws = 0;
  for (const ScheduledSource& source : sources) {
    require_at_least(1, source.epochs, "source.epochs");
    require_at_least(1, source.weight, "source.weight");
    if (source.weight > largest_weight)
      throw ConfigError("source.weight", "is " + std::to_string(source.weight) + "; it must be at most " +
                                             std::to_string(largest_weight));
    if (source.samples < 1)
      throw InputError("source", "has no samples", "Give a source with at least one sample");
    if (source.samples > (max_draws - draws) / source.epochs) {
      throw ConfigError(
          "source.epochs",
          "is " + std::to_string(source.epochs) + ", so the number of samples exceeds the limit of 2^60",
          "Lower source.epochs");
    }
    draws += source.draws();
  }
  if (draws == 0) throw InputError("source", "has no samples", "Give a source with at least one sample");
  return draws;
}

}  // namespace

/// This class is derived so that the public header does not have to declare evenkeel::Blend, which is
/// internal.
class BatchSchedule::Blend : public evenkeel::Blend {
 public:
  using evenkeel::Blend::Blend;
};

/// The latest window, and the delay figures of steps that were arranged but not queried yet.
class BatchSchedule::DelayedWindow {
 public:
  explicit DelayedWindow(OutlierDelay delay) : delay_(std::move(delay)) {}

  /// Returns the maximum number of steps in a window.
  [[nodiscard]] std::int64_t window_steps() const noexcept { return delay_.settings.steps + 1; }
  [[nodiscard]] bool has(std::int64_t step) const noexcept {
    return first_ <= step && step < first_ + std::ssize(steps_);
  }
  void arrange(std::int64_t first, const std::vector<std::vector<std::int64_t>>& drawn) {
    steps_ = delay_outliers(first, drawn, delay_);
    first_ = first;
    for (std::size_t t = 0; t < steps_.size(); ++t)
      figures_.insert_or_assign(first + static_cast<std::int64_t>(t), steps_[t].figures);
  }
  [[nodiscard]] const std::vector<std::int64_t>& samples_of(std::int64_t step) const {
    return steps_[static_cast<std::size_t>(step - first_)].samples;
  }
  [[nodiscard]] bool has_figures(std::int64_t step) const noexcept { return figures_.contains(step); }
  /// Returns the delay figures of a step and drops those of earlier steps, since a run may have millions of
  /// steps.
  [[nodiscard]] DelayFigures advance_figures_to(std::int64_t step) {
    figures_.erase(figures_.begin(), figures_.find(step));
    return figures_.begin()->second;
  }

 private:
  OutlierDelay delay_;
  std::int64_t first_ = 0;
  std::vector<DelayedStep> steps_;
  std::map<std::int64_t, DelayFigures> figures_;
};

BatchSchedule::BatchSchedule(std::int64_t num_samples, const ScheduleSettings& settings)
    : BatchSchedule(std::vector<ScheduledSource>{{.samples = num_samples}}, settings) {}

BatchSchedule::BatchSchedule(std::vector<ScheduledSource> sources, const ScheduleSettings& settings,
                             OutlierDelay delay)
    : settings_(settings) {
  require_at_least(1, settings.global_batch, "batch.global_batch");
  require_at_least(1, settings.epochs, "batch.epochs");
  draws_ = count_draws(sources);
  if (steps_per_epoch() == 0) {
    throw InputError("batch.drop_last",
                     "leaves no step: an epoch has " + format_plain_count(draws_, "sample") +
                         ", fewer than batch.global_batch, " + std::to_string(settings.global_batch),
                     "Lower batch.global_batch, or set batch.drop_last: false");
  }
  if (settings.epochs > std::numeric_limits<std::int64_t>::max() / steps_per_epoch()) {
    throw ConfigError("batch.epochs",
                      "is " + std::to_string(settings.epochs) + ", so with " +
                          format_plain_count(steps_per_epoch(), "step") +
                          " per epoch, the number of steps is 2^63 or more",
                      "Lower batch.epochs");
  }
  blend_ = std::make_unique<Blend>(std::move(sources), settings.shuffle, settings.seed);
  if (delay.settings.is_on()) delayed_window_ = std::make_unique<DelayedWindow>(std::move(delay));
}

BatchSchedule::BatchSchedule(BatchSchedule&&) noexcept = default;
BatchSchedule& BatchSchedule::operator=(BatchSchedule&&) noexcept = default;
BatchSchedule::~BatchSchedule() = default;

std::int64_t BatchSchedule::steps_per_epoch() const noexcept {
  const std::int64_t whole = draws_ / settings_.global_batch;
  const bool has_rest = draws_ % settings_.global_batch != 0;
  return has_rest && !settings_.drop_last ? whole + 1 : whole;
}

std::int64_t BatchSchedule::size_of(std::int64_t step) const noexcept {
  EVENKEEL_PRECONDITION(cheap, 0 <= step && step < num_steps(), step, num_steps());
  return std::min(settings_.global_batch, draws_ - first_draw_of(step));
}

std::vector<std::int64_t> BatchSchedule::draw_positions(std::int64_t step, std::int64_t first,
                                                        std::int64_t count) {
  std::vector<std::int64_t> positions(static_cast<std::size_t>(count));
  blend_->draw(step / steps_per_epoch(), first_draw_of(step) + first, positions);
  return positions;
}

void BatchSchedule::arrange_window_of(std::int64_t step) {
  const std::int64_t epoch = step / steps_per_epoch();
  const std::int64_t first = step - step % steps_per_epoch() % delayed_window_->window_steps();
  const std::int64_t end = std::min(first + delayed_window_->window_steps(), (epoch + 1) * steps_per_epoch());
  std::vector<std::vector<std::int64_t>> steps;
  for (std::int64_t s = first; s < end; ++s) steps.push_back(draw_positions(s, 0, size_of(s)));
  delayed_window_->arrange(first, steps);
}

std::vector<std::int64_t> BatchSchedule::share_of(std::int64_t step, int rank, int num_ranks) {
  const std::int64_t size = size_of(step);
  const auto cut = [&](std::int64_t r) { return r * (size / num_ranks) + std::min(r, size % num_ranks); };
  if (!delayed_window_) return draw_positions(step, cut(rank), cut(rank + 1) - cut(rank));
  if (!delayed_window_->has(step)) arrange_window_of(step);
  const std::vector<std::int64_t>& samples = delayed_window_->samples_of(step);
  return {samples.begin() + cut(rank), samples.begin() + cut(rank + 1)};
}

DelayFigures BatchSchedule::delay_of(std::int64_t step) {
  EVENKEEL_PRECONDITION(cheap, 0 <= step && step < num_steps(), step, num_steps());
  if (!delayed_window_) return {};
  if (!delayed_window_->has_figures(step)) arrange_window_of(step);
  return delayed_window_->advance_figures_to(step);
}

}  // namespace evenkeel
