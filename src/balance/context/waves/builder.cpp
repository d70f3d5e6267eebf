#include "balance/context/waves/builder.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "balance/checks.hpp"
#include "balance/context/free_ranks.hpp"
#include "balance/context/waves/moves.hpp"
#include "cost/sum_limit.hpp"

namespace evenkeel::context {
namespace {

Cost max_task_time(std::span<const OpenTask> tasks) {
  Cost time = 0;
  for (const OpenTask& task : tasks) time = std::max(time, task.time);
  return time;
}

/// Maximum number of partial schedules that are kept for each number of waves.
constexpr std::int64_t most_kept = 24;
constexpr Cost any_height = sum_limit >> 20;
/// Each entry defines a candidate height of a wave: the time of the wave's first item, plus 1 / entry of this
/// time unless the entry is 0.
constexpr Cost extras[] = {0, 8, 3};

class WaveBeam {
 public:
  WaveBeam(const Levels& levels, WaveBuilder& builder, const SmallItems& small, std::int64_t placements)
      : levels_(levels), builder_(builder), small_(small), placements_(placements), reserve_(placements / 2) {
    for (const Item item : builder.order()) area_ += min_area(item);
  }

  [[nodiscard]] std::vector<Waves> search() {
    std::vector<State> beam{{.waves = {}, .left = area_, .score = 0}};
    while (!beam.empty()) {
      if (placements_ <= 0) {
        done_.push_back(builder_.build({.first_limit = any_height}, beam.front().waves));
        break;
      }
      std::vector<State> next;
      const std::int64_t before = placements_;
      for (const State& state : beam) extend(state, next);
      const std::int64_t of_each = (before - placements_) / std::ssize(beam);
      beam = best_states(std::move(next), (placements_ - reserve_) / std::max<std::int64_t>(1, of_each));
    }
    std::ranges::stable_sort(done_, {}, &Waves::end);
    return std::move(done_);
  }

 private:
  /// A partial schedule: waves that contain some of the items.
  struct State {
    Waves waves;
    Cost left = 0;   ///< sum of the minimum areas of the remaining items
    Cost score = 0;  ///< estimated end of the complete schedule
  };

  [[nodiscard]] Cost min_area(Item item) const {
    Cost least = -1;
    for (int level = levels_.lowest_level(item); level < levels_.count(); ++level)
      if (levels_.fits(item, level) && (least < 0 || levels_.area(item, level) < least))
        least = levels_.area(item, level);
    return least;
  }

  /// Extends a partial schedule by one wave, in a separate copy for each candidate height.
  void extend(const State& state, std::vector<State>& next) {
    const Item item = builder_.largest_unplaced_item(state.waves);
    Cost last = -1;
    for (int level = levels_.lowest_level(item); level < levels_.count(); ++level) {
      if (!levels_.fits(item, level)) continue;
      const Cost time = levels_.time(item, level);
      if (last >= 0 && time >= last) continue;
      last = time;
      for (const Cost extra : extras) extend_to(state, time, extra == 0 ? time : time + time / extra, next);
    }
  }

  void extend_to(const State& state, Cost first, Cost height, std::vector<State>& next) {
    State longer = state;
    const std::size_t before = longer.waves.tasks.size();
    builder_.add_wave({.first_limit = first, .height = height}, longer.waves);
    placements_ -= std::ssize(builder_.order());
    for (std::size_t t = before; t < longer.waves.tasks.size(); ++t)
      for (const Item item : longer.waves.tasks[t].items) longer.left -= min_area(item);
    std::int64_t no_evaluations =
        0;  // do not examine places; only recompute the end, including the small items
    improve_waves(longer.waves, levels_, small_, no_evaluations);
    // The factor 9/8 accounts for idle ranks in later waves.
    longer.score = longer.waves.end + levels_.speeds().mean_time(longer.left) * 9 / 8;
    if (builder_.are_all_items_in(longer.waves)) {
      done_.push_back(std::move(longer.waves));
    } else {
      next.push_back(std::move(longer));
    }
  }

  /// Returns the best states with distinct scores: at most `most` and at most most_kept of them, but at least
  /// one.
  [[nodiscard]] static std::vector<State> best_states(std::vector<State> states, std::int64_t most) {
    std::ranges::stable_sort(states, {}, &State::score);
    const auto same = std::ranges::unique(states, {}, &State::score);
    states.erase(same.begin(), same.end());
    const auto kept = static_cast<std::size_t>(std::clamp<std::int64_t>(most, 1, most_kept));
    if (states.size() > kept) states.resize(kept);
    return states;
  }

  const Levels& levels_;
  WaveBuilder& builder_;
  SmallItems small_;
  std::int64_t placements_;
  std::int64_t reserve_;  ///< number of placements reserved for completing the most promising state
  Cost area_ = 0;
  std::vector<Waves> done_;
};

}  // namespace

WaveBuilder::WaveBuilder(const Levels& levels, std::vector<Item> items)
    : levels_(&levels), order_(std::move(items)) {
  works_.reserve(order_.size());
  tokens_.reserve(order_.size());
  places_.resize(static_cast<std::size_t>(levels.num_items()));
  for (std::size_t at = 0; at < order_.size(); ++at) {
    works_.push_back(levels.work(order_[at]).work);
    tokens_.push_back(levels.aligned_tokens(order_[at], 0));
    places_[static_cast<std::size_t>(order_[at])] = at;
  }
  are_tokens_descending_ = std::ranges::is_sorted(tokens_, std::ranges::greater{});
}

void WaveBuilder::reset_unplaced_items(const Waves& waves) {
  next_.resize(order_.size() + 1);
  std::iota(next_.begin(), next_.end(), std::size_t{0});
  for (const OpenTask& task : waves.tasks)
    for (const Item item : task.items) mark_placed(places_[static_cast<std::size_t>(item)]);
}

std::size_t WaveBuilder::next_unplaced(std::size_t at) {
  while (next_[at] != at) {
    next_[at] = next_[next_[at]];
    at = next_[at];
  }
  return at;
}

std::size_t WaveBuilder::first_place_within(std::size_t from, Cost work, std::int64_t tokens) const {
  const auto begin = static_cast<std::ptrdiff_t>(from);
  const auto by_work =
      std::ranges::lower_bound(works_.begin() + begin, works_.end(), work, std::ranges::greater{});
  const auto at = by_work - works_.begin();
  if (!are_tokens_descending_) return static_cast<std::size_t>(at);
  const auto by_tokens =
      std::ranges::lower_bound(tokens_.begin() + at, tokens_.end(), tokens, std::ranges::greater{});
  return static_cast<std::size_t>(by_tokens - tokens_.begin());
}

std::size_t WaveBuilder::find_companion(const OpenTask& task, std::size_t from, Cost height) {
  const CommunicationCost& cost = levels_->problem().communication;
  const std::int64_t size = levels_->size(task.level);
  const Cost fast_height = levels_->equivalent_fastest_time(height, task.level, task.first);
  // `spare` may be too low, since it ignores that the attention of a companion could hide communication of
  // the micro-batch.
  const Cost spare =
      (fast_height - cost.overhead) * size - task.work.work - exposed_communication(task.work, size, cost);
  if (spare < 0) return order_.size();
  constexpr int tries = 10;
  std::size_t at = first_place_within(from, spare, levels_->cap(task.level) - task.used);
  for (int i = 0; i < tries; ++i) {
    at = next_unplaced(at);
    if (at == order_.size()) return at;
    if (task.has_room_for(order_[at], *levels_)) {
      ContextWork work = task.work;
      work += levels_->work(order_[at]);
      if (levels_->time_at(work, task.level, task.first) <= height) return at;
    }
    at = std::min(order_.size(), at + (std::size_t{1} << i));
  }
  return order_.size();
}

void WaveBuilder::fill(OpenTask& task, std::size_t from, Cost height) {
  for (;;) {
    from = find_companion(task, from, height);
    if (from == order_.size()) return;
    task.add(order_[from], *levels_);
    mark_placed(from);
  }
}

void WaveBuilder::fill_and_append_tasks(std::span<OpenTask> started, Cost height, Waves& waves) {
  for (OpenTask& task : started) {
    fill(task, 0, height);
    waves.tasks.push_back(std::move(task));
  }
}

void WaveBuilder::build_wave(const WaveTrial& trial, std::int64_t wave, std::span<OpenTask> started,
                             Waves& waves) {
  const std::size_t first_task = waves.tasks.size();
  FreeRanks free(*levels_);
  Cost height = max_task_time(started);
  for (const OpenTask& task : started) free.acquire(task.level, task.first);
  if (trial.slack > 0) height += height / trial.slack;
  fill_and_append_tasks(started, height, waves);
  for (std::size_t at = next_unplaced(0); at < order_.size() && free.count() > 0;
       at = next_unplaced(at + 1)) {
    const Item item = order_[at];
    const bool is_first = waves.tasks.size() == first_task;
    const int level = levels_->cheapest_level_within(item, is_first ? trial.first_limit : height);
    const std::optional<std::int64_t> place = free.find_fastest_block(level);
    if (!place) continue;
    const Cost time = levels_->time_at(levels_->work(item), level, *place);
    if (is_first) height = std::max(trial.height, time);
    if (time > height) continue;
    free.acquire(level, *place);
    mark_placed(at);
    waves.tasks.push_back({.first = *place, .level = level, .wave = wave});
    waves.tasks.back().add(item, *levels_);
    fill(waves.tasks.back(), at, height);
  }
  waves.end += max_task_time(std::span(waves.tasks).subspan(first_task));
}

void WaveBuilder::add_wave(const WaveTrial& trial, Waves& waves) {
  reset_unplaced_items(waves);
  build_wave(trial, waves.tasks.empty() ? 0 : waves.tasks.back().wave + 1, {}, waves);
}

Item WaveBuilder::largest_unplaced_item(const Waves& waves) {
  reset_unplaced_items(waves);
  return order_[next_unplaced(0)];
}

bool WaveBuilder::are_all_items_in(const Waves& waves) const {
  std::size_t held = 0;
  for (const OpenTask& task : waves.tasks) held += task.items.size();
  return held == order_.size();
}

Waves WaveBuilder::fill_up(const WaveTrial& trial, Waves start) {
  reset_unplaced_items(start);
  Waves waves;
  for (auto begin = start.tasks.begin(); begin != start.tasks.end();) {
    const std::int64_t wave = begin->wave;
    const auto end =
        std::find_if(begin, start.tasks.end(), [&](const OpenTask& task) { return task.wave != wave; });
    build_wave(trial, wave, {begin, end}, waves);
    begin = end;
  }
  return waves;
}

std::vector<Item> WaveBuilder::unplaced_items() {
  std::vector<Item> items;
  for (std::size_t at = next_unplaced(0); at < order_.size(); at = next_unplaced(at + 1))
    items.push_back(order_[at]);
  return items;
}

Waves WaveBuilder::build(const WaveTrial& trial, Waves start) {
  Waves waves = fill_up(trial, std::move(start));
  std::int64_t wave = waves.tasks.empty() ? 0 : waves.tasks.back().wave + 1;
  for (; next_unplaced(0) < order_.size(); ++wave) build_wave(trial, wave, {}, waves);
  return waves;
}

std::vector<Waves> beam_search_waves(const Levels& levels, WaveBuilder& builder, const SmallItems& small,
                                     std::int64_t placements) {
  return WaveBeam(levels, builder, small, placements).search();
}

}  // namespace evenkeel::context
