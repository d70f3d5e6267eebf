#include "plan/schedule/delayed_window.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "balance/quality.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/strategies/flexible_groups.hpp"

namespace evenkeel {
namespace {

using Ends = DelayFigures::Ends;

struct Sample {
  std::int64_t position = 0;  // position in the sources
  std::int64_t length = 0;
  std::size_t from = 0;  // step of the window for which the schedule drew the sample
};

using Samples = std::vector<Sample>;

/// An outlier in the queue, with its current step. It may move to a later step.
struct Outlier {
  std::int64_t length = 0;
  std::size_t step = 0;
  std::size_t at = 0;  // position among the samples of the step
};

bool are_alike(const Outlier& longest, const Outlier& shortest) {
  return shortest.length >= longest.length - longest.length / 2;
}

class Window {
 public:
  Window(std::int64_t first_step, std::span<const std::vector<std::int64_t>> steps, const OutlierDelay& delay)
      : first_step_(first_step), delay_(delay) {
    for (std::size_t t = 0; t < steps.size(); ++t) {
      Samples& samples = steps_.emplace_back();
      for (const std::int64_t position : steps[t]) samples.push_back({position, delay.length(position), t});
    }
  }

  void delay() {
    if (!fits()) return;
    for (std::size_t t = 0; t < steps_.size(); ++t) ends_.push_back(planned(t, steps_[t]));
    in_order_ = ends_;
    for (std::size_t t = 0; t < steps_.size(); ++t) {
      queue_outliers_of(t);
      while (const std::optional<std::size_t> first = first_needed_companion())
        bring_together(*first, companions(), t);
    }
    while (queue_.size() > 1) bring_together(0, std::min(queue_.size(), companions()), steps_.size() - 1);
  }

  [[nodiscard]] std::vector<DelayedStep> result() const {
    std::vector<DelayedStep> result;
    for (std::size_t t = 0; t < steps_.size(); ++t) {
      DelayedStep& step = result.emplace_back();
      step.figures.steps = 1;
      for (const Sample& sample : steps_[t]) {
        step.samples.push_back(sample.position);
        step.figures.tokens += sample.length;
        if (sample.from >= t) continue;
        const auto waited = static_cast<std::int64_t>(t - sample.from);
        ++step.figures.samples;
        step.figures.sample_steps += waited;
        step.figures.token_steps += waited * sample.length;
        step.figures.longest = std::max(step.figures.longest, waited);
      }
      if (ends_.empty()) continue;
      step.figures.planned = ends_[t];
      step.figures.in_order = in_order_[t];
    }
    return result;
  }

 private:
  [[nodiscard]] std::size_t companions() const {
    return static_cast<std::size_t>(*delay_.settings.outliers_per_step);
  }

  [[nodiscard]] bool fits() const {
    const std::int64_t alignment = delay_.plan.alignment();
    const std::int64_t longest = delay_.plan.cap(delay_.plan.cp.size) / alignment * alignment;
    return std::ranges::all_of(steps_, [&](const Samples& samples) {
      return std::ranges::all_of(samples, [&](const Sample& sample) { return sample.length <= longest; });
    });
  }

  [[nodiscard]] bool is_outlier(const Sample& sample) const {
    return sample.length > *delay_.settings.longer_than;
  }

  // Queues the outliers of step t. The queue is sorted by descending length; outliers of equal length are in
  // the order of their steps.
  void queue_outliers_of(std::size_t t) {
    for (std::size_t at = 0; at < steps_[t].size(); ++at) {
      if (is_outlier(steps_[t][at])) queue_.push_back({steps_[t][at].length, t, at});
    }
    const auto key = [](const Outlier& o) { return std::tuple(-o.length, o.step, o.at); };
    std::ranges::sort(queue_, {}, key);
  }

  [[nodiscard]] std::optional<std::size_t> first_needed_companion() const {
    for (std::size_t first = 0; first + companions() <= queue_.size(); ++first) {
      if (are_alike(queue_[first], queue_[first + companions() - 1])) return first;
    }
    return {};
  }

  /// Removes `count` outliers from the queue, starting at `first`. Moves them to step t if that makes the
  /// changed steps end earlier.
  void bring_together(std::size_t first, std::size_t count, std::size_t t) {
    const auto begin = queue_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    std::vector<Outlier> moving;
    std::ranges::copy_if(begin, end, std::back_inserter(moving),
                         [&](const Outlier& outlier) { return outlier.step != t; });
    queue_.erase(begin, end);
    if (moving.empty()) return;
    std::vector<std::pair<std::size_t, Samples>> before{{t, steps_[t]}};
    for (const Outlier& outlier : moving) {
      if (std::ranges::find(before, outlier.step, &std::pair<std::size_t, Samples>::first) == before.end())
        before.emplace_back(outlier.step, steps_[outlier.step]);
    }
    if (swap_into(t, moving) && keep_if_earlier(before)) return;
    for (auto& [step, samples] : before) steps_[step] = std::move(samples);
  }

  /// Swaps each moving outlier with a sample of step t that is not an outlier. Returns whether step t has
  /// enough such samples. If it does not, some outliers have been swapped nevertheless.
  [[nodiscard]] bool swap_into(std::size_t t, std::span<const Outlier> moving) {
    std::size_t at = 0;
    for (const Outlier& outlier : moving) {
      while (at < steps_[t].size() && is_outlier(steps_[t][at])) ++at;
      if (at == steps_[t].size()) return false;
      std::swap(steps_[t][at], steps_[outlier.step][outlier.at]);
    }
    return true;
  }

  [[nodiscard]] bool keep_if_earlier(std::span<const std::pair<std::size_t, Samples>> before) {
    std::vector<Ends> now;
    Ends gain;
    for (const auto& entry : before) {
      const std::size_t step = entry.first;
      const Ends& ends = now.emplace_back(planned(step, steps_[step]));
      gain.once += ends_[step].once - ends.once;
      gain.every_micro_batch += ends_[step].every_micro_batch - ends.every_micro_batch;
    }
    if (gain.once < 0 || gain.every_micro_batch < 0 || gain == Ends{}) return false;
    for (std::size_t i = 0; i < before.size(); ++i) ends_[before[i].first] = now[i];
    return true;
  }

  [[nodiscard]] Ends planned(std::size_t t, std::span<const Sample> samples) const {
    std::vector<std::int64_t> lengths;
    lengths.reserve(samples.size());
    for (const Sample& sample : samples) lengths.push_back(sample.length);
    const LengthTable table = LengthTable::from_lengths(lengths);
    const StepPlan plan = plan_step({table, delay_.plan, first_step_ + static_cast<std::int64_t>(t)});
    const BalanceSettings& balance = delay_.plan.balance;
    const Cost overhead =
        plan.num_micro_batches() * balance.overhead.value_or(default_overhead(balance.cost));
    return {static_cast<double>(end_time_of(plan, false) + overhead),
            static_cast<double>(end_time_of(plan, true) + overhead)};
  }

  std::int64_t first_step_;
  const OutlierDelay& delay_;
  std::vector<Samples> steps_;
  std::vector<Ends> ends_;  // current end times of the steps; empty if a sample exceeds the cap
  std::vector<Ends> in_order_;
  std::vector<Outlier> queue_;
};

}  // namespace

void DelayFigures::add(const DelayFigures& others) noexcept {
  steps += others.steps;
  tokens += others.tokens;
  samples += others.samples;
  sample_steps += others.sample_steps;
  token_steps += others.token_steps;
  longest = std::max(longest, others.longest);
  planned.once += others.planned.once;
  planned.every_micro_batch += others.planned.every_micro_batch;
  in_order.once += others.in_order.once;
  in_order.every_micro_batch += others.in_order.every_micro_batch;
}

std::vector<DelayedStep> delay_outliers(std::int64_t first_step,
                                        std::span<const std::vector<std::int64_t>> steps,
                                        const OutlierDelay& delay) {
  EVENKEEL_PRECONDITION(cheap, delay.settings.is_on() && delay.settings.longer_than.has_value());
  EVENKEEL_PRECONDITION(
      cheap, delay.settings.outliers_per_step.has_value() && *delay.settings.outliers_per_step >= 2);
  Window window(first_step, steps, delay);
  window.delay();
  return window.result();
}

}  // namespace evenkeel
