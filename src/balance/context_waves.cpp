#include "balance/context_waves.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "balance/checks.hpp"
#include "balance/context_wave_builder.hpp"
#include "balance/context_wave_moves.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

/// Items that are placed in all, over all trials.
constexpr std::int64_t most_placed = 1 << 18;
/// An end so near to the bound, as 1 over this, is not improved any more.
constexpr Cost near_enough = 4096;
/// Places that are looked at for items, when waves are improved.
constexpr std::int64_t most_looks = 1 << 22;
/// So many trials are improved.
constexpr std::int64_t most_started = 24;
constexpr Cost unlimited = balance_checks::sum_limit >> 20;

class WaveSearch {
 public:
  explicit WaveSearch(const ContextLevels& levels)
      : levels_(levels), builder_(levels), bound_(lower_bound_on(levels)), full_time_(full_time()) {
    find_sand();
  }

  [[nodiscard]] Waves best() {
    try_grid();
    improve_levels();
    placements_left_ += most_placed / 4;
    improve_best_trials();
    settle_waves(best_, levels_);
    return std::move(best_);
  }

 private:
  /// Of a micro-batch on one rank that is full of items as they come.
  [[nodiscard]] Cost full_time() const {
    Cost work = 0;
    std::int64_t tokens = 1;
    for (Item item = 0; item < levels_.num_items(); ++item) {
      if (levels_.lowest(item) > 0) continue;
      work += levels_.work(item).work;
      tokens += levels_.aligned(item, 0);
    }
    const std::int64_t cap = std::min(levels_.cap(0), tokens);
    return levels_.problem().communication.overhead + work / tokens * cap * 3 / 2 + 1;
  }

  /// Lengths for the first item of a wave, and heights: each alone, then both.
  void try_grid() {
    std::vector<Cost> limits;
    for (Cost limit = 2 * bound_; limit > full_time_ / 4 && limits.size() < 48; limit -= limit / 6 + 1)
      limits.push_back(limit);
    std::vector<Cost> heights{0};
    for (Cost height = full_time_; heights.size() < 40; height -= height / 25) heights.push_back(height);
    trial_.height = unlimited;
    try_all(limits, &WaveTrial::first_limit);
    try_all(heights, &WaveTrial::height);
    try_all(limits, &WaveTrial::first_limit);
    for (std::size_t i = 0; i < limits.size(); i += 2) {
      for (std::size_t j = 0; j < heights.size(); j += 3) {
        if (!may_try()) return;
        WaveTrial trial = trial_;
        trial.first_limit = limits[i];
        trial.height = heights[j];
        try_trial(trial);
      }
    }
  }

  /// The more items, the fewer.
  [[nodiscard]] std::int64_t looks() const { return most_looks / (1 + levels_.num_items() / 4096); }

  /// Those trials that ended first, each improved: at first the long items among themselves.
  void improve_best_trials() {
    std::ranges::stable_sort(trials_, {}, &std::pair<Cost, WaveTrial>::first);
    std::int64_t looks_at_longs = looks() / 2;
    std::vector<Started> started;
    Cost last = -1;
    for (const auto& [end, trial] : trials_) {
      if (end == last) continue;
      last = end;
      if (std::ssize(started) == most_started || looks_at_longs <= 0) break;
      Waves longs = only_longs(builder_.build(trial));
      improve_waves(longs, levels_, sand_, looks_at_longs);
      started.push_back({std::move(longs), trial});
    }
    std::ranges::stable_sort(started, {}, [](const Started& start) { return start.longs.end; });
    fill_started(started);
  }

  /// Long items that have their waves, and how the others will be put.
  struct Started {
    Waves longs;
    WaveTrial trial;
  };

  void fill_started(const std::vector<Started>& started) {
    std::vector<Waves> filled;
    std::int64_t looks = this->looks();
    Cost last = -1;
    filled.push_back(best_);
    for (const Started& start : started) {
      if (start.longs.end == last || !may_try()) continue;
      last = start.longs.end;
      for (const Cost slack : {0, 64, 16}) {
        WaveTrial trial = start.trial;
        trial.slack = slack;
        filled.push_back(builder_.build(trial, start.longs));
        placements_left_ -= levels_.num_items();
      }
    }
    std::ranges::stable_sort(filled, {}, &Waves::end);
    for (Waves& waves : filled) {
      if (looks <= 0 || best_.end - bound_ <= bound_ / near_enough) return;
      improve_waves(waves, levels_, {}, looks);
      if (waves.end < best_.end) best_ = std::move(waves);
    }
  }

  [[nodiscard]] bool is_long(Item item) const {
    return levels_.lowest(item) > 0 || levels_.time(item, 0) > full_time_;
  }

  [[nodiscard]] Waves only_longs(const Waves& all) const {
    Waves longs;
    std::int64_t wave = -1;  // of those with long items
    std::int64_t of_all = -1;
    for (const OpenTask& task : all.tasks) {
      OpenTask kept{.level = task.level};
      for (const Item item : task.items)
        if (is_long(item)) kept.add(item, levels_);
      if (kept.items.empty()) continue;
      if (task.wave != of_all) ++wave;
      of_all = task.wave;
      kept.wave = wave;
      longs.tasks.push_back(std::move(kept));
    }
    return longs;
  }

  void find_sand() {
    std::int64_t tokens = 0;
    for (Item item = 0; item < levels_.num_items(); ++item) {
      if (is_long(item)) continue;
      sand_.work += levels_.work(item).work;
      tokens += levels_.aligned(item, 0);
    }
    if (tokens == 0) return;
    sand_.per_token = sand_.work / tokens + levels_.problem().communication.overhead / levels_.cap(0);
    sand_.work = sand_.per_token * tokens;
  }

  [[nodiscard]] bool may_try() const {
    return best_.tasks.empty() || (placements_left_ > 0 && best_.end - bound_ > bound_ / near_enough);
  }

  bool try_trial(const WaveTrial& trial) {
    placements_left_ -= levels_.num_items();
    Waves waves = builder_.build(trial);
    trials_.emplace_back(waves.end, trial);
    if (!best_.tasks.empty() && waves.end >= best_.end) return false;
    best_ = std::move(waves);
    trial_ = trial;
    return true;
  }

  void try_all(const std::vector<Cost>& values, Cost WaveTrial::*member) {
    WaveTrial trial = trial_;
    for (const Cost value : values) {
      if (!may_try()) return;
      trial.*member = value;
      try_trial(trial);
    }
  }

  /// One item that begins a wave a level up or down, as long as that makes the end earlier.
  void improve_levels() {
    bool improved = true;
    while (improved && may_try()) {
      improved = false;
      for (std::size_t at = 0; at < builder_.order().size() && may_try(); ++at) {
        const Item item = builder_.order()[at];
        if (levels_.time(item, 0) <= trial_.height && levels_.lowest(item) == 0) continue;
        WaveTrial trial = trial_;
        trial.first_levels.resize(builder_.order().size(), -1);
        const int now = trial.first_levels[at] >= 0 ? trial.first_levels[at]
                                                    : levels_.cheapest_within(item, trial.first_limit);
        for (const int step : {1, -1}) {
          trial.first_levels[at] = now + step;
          if (now + step < 0 || now + step >= levels_.count() || !levels_.fits(item, now + step)) continue;
          improved |= try_trial(trial);
        }
      }
    }
  }

  const ContextLevels& levels_;
  WaveBuilder builder_;
  Cost bound_;
  Cost full_time_;
  Sand sand_;  ///< what is not long
  std::int64_t placements_left_ = most_placed;
  WaveTrial trial_;                                 ///< the best so far
  std::vector<std::pair<Cost, WaveTrial>> trials_;  ///< all of them, and their ends
  Waves best_;
};

}  // namespace

ContextSchedule schedule_context_waves(const ContextProblem& problem, std::int64_t multiple_of,
                                       std::int64_t min_waves) {
  require_context_fits(problem);
  if (multiple_of < 1) throw InputError("multiple_of", std::to_string(multiple_of) + ", below 1");
  if (min_waves < 0) throw InputError("min_waves", std::to_string(min_waves) + ", below 0");
  ContextSchedule schedule;
  if (!problem.items.empty()) {
    const ContextLevels levels(problem);
    Waves waves = WaveSearch(levels).best();
    schedule = finished_schedule(std::move(waves.tasks), levels);
    schedule.end = waves.end;
  }
  const std::int64_t used = schedule.tasks.empty() ? 0 : schedule.tasks.back().wave + 1;
  schedule.waves = balance_checks::ceil_div(std::max(used, min_waves), multiple_of) * multiple_of;
  return schedule;
}

}  // namespace evenkeel
