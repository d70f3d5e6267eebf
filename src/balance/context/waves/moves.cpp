#include "balance/context/waves/moves.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "balance/context/free_ranks.hpp"

namespace evenkeel::context {

namespace {

/// Maximum number of waves for which ruin and recreate is applied to pairs of waves.
constexpr std::size_t max_waves_in_pairs = 12;

/// A wave: its micro-batches, and the ranks that do not run any of them.
struct OpenWave {
  std::vector<OpenTask> tasks{};
  FreeRanks free{};
  Cost time = 0;
  /// Number of the last trial in which save_before_change() saved the wave's previous state.
  std::int64_t saved_in_trial = 0;

  void compute_time() {
    time = 0;
    for (const OpenTask& task : tasks) time = std::max(time, task.time);
  }
};

/// A possible place for an item: an existing micro-batch, or free ranks on which a new one could run.
struct WaveSpot {
  Cost longer = std::numeric_limits<Cost>::max();  ///< increase of the wave's time
  Cost idle = 0;  ///< work that the group could do while it waits for other groups
  std::size_t wave = 0;
  std::size_t task = 0;    ///< index in OpenWave::tasks; the number of tasks if a new task is needed
  int level = 0;           ///< level (index of the group size) of the task
  std::int64_t first = 0;  ///< first rank of the task

  [[nodiscard]] bool is_better_than(const WaveSpot& other) const {
    return std::tie(longer, idle) < std::tie(other.longer, other.idle);
  }
};

class WaveMoves {
 public:
  WaveMoves(Waves& waves, const Levels& levels, const SmallItems& small, std::int64_t& evaluations_left)
      : result_(&waves),
        levels_(&levels),
        small_(small),
        evaluations_left_(evaluations_left),
        all_ranks_(levels) {
    for (OpenTask& task : waves.tasks) {
      const auto w = static_cast<std::size_t>(task.wave);
      if (w >= waves_.size()) waves_.resize(w + 1, {.free = all_ranks_});
      waves_[w].free.acquire(task.level, task.first);
      waves_[w].tasks.push_back(std::move(task));
    }
    for (OpenWave& wave : waves_) wave.compute_time();
    num_tasks_ = static_cast<std::int64_t>(waves.tasks.size());
  }

  void improve() {
    bool improved = true;
    while (improved && evaluations_left_ > 0) {
      improved = false;
      for (const std::size_t w : waves_by_idle_time())
        for (const Cost share : {0, 50, 10, 4, 2}) improved |= try_on_all_levels({w, w, share});
      if (!improved && waves_.size() <= max_waves_in_pairs) improved = try_pairs();
    }
  }

  void write_back() {
    result_->tasks.clear();
    result_->end = end();
    for (std::size_t w = 0; w < waves_.size(); ++w) {
      for (OpenTask& task : waves_[w].tasks) {
        task.wave = static_cast<std::int64_t>(w);
        result_->tasks.push_back(std::move(task));
      }
    }
  }

 private:
  /// Returns the waves in descending order of idle time.
  [[nodiscard]] std::vector<std::size_t> waves_by_idle_time() const {
    std::vector<std::pair<Cost, std::size_t>> idle;
    for (std::size_t w = 0; w < waves_.size(); ++w) {
      Cost sum = waves_[w].free.work_in(waves_[w].time);
      for (const OpenTask& task : waves_[w].tasks)
        sum += area_within(waves_[w].time - task.time, task.level, task.first);
      idle.emplace_back(-sum, w);
    }
    std::ranges::sort(idle);
    std::vector<std::size_t> order;
    for (const auto& [sum, w] : idle) order.push_back(w);
    return order;
  }

  /// Returns the amount of work that a group can do in `time`.
  [[nodiscard]] Cost area_within(Cost time, int level, std::int64_t first) const {
    return levels_->equivalent_fastest_time(time, level, first) * levels_->size(level);
  }

  /// Returns the sum of the waves' times, plus the time for the small items that do not fit in them.
  [[nodiscard]] Cost end() const {
    Cost sum = 0;
    Cost left = small_.work;
    for (const OpenWave& wave : waves_) {
      sum += wave.time;
      if (left > 0) left -= small_work_within(wave);
    }
    return sum + levels_->speeds().mean_time(std::max<Cost>(0, left));
  }

  [[nodiscard]] Cost small_work_within(const OpenWave& wave) const {
    Cost sum = wave.free.work_in(std::min(wave.time, small_.per_token * levels_->cap(0)));
    for (const OpenTask& task : wave.tasks) {
      const std::int64_t room = levels_->cap(task.level) - task.used;
      sum += std::min(room, num_fitting_small_tokens(task, wave.time)) * small_.per_token;
    }
    return sum;
  }

  /// Returns the number of tokens of small items for which the group of `task` has time before the wave ends.
  /// The communication of these tokens also takes time, except for the part that the attention of the group's
  /// items hides.
  [[nodiscard]] std::int64_t num_fitting_small_tokens(const OpenTask& task, Cost wave_time) const {
    const CommunicationCost& cost = levels_->problem().communication;
    const std::int64_t size = levels_->size(task.level);
    const Cost area = area_within(wave_time - task.time, task.level, task.first);
    const Cost hidden = task.work.attention / 1000 * cost.overlap;
    const Cost spare = std::max<Cost>(0, hidden - communication_of(task.work.rows, size, cost));
    return std::min(area / small_.per_token,
                    (area + spare) / (small_.per_token + communication_of(1, size, cost)));
  }

  /// Describes what to remove from one wave (first == second) or from two waves: the micro-batches that end
  /// within the last 1 / share of the wave's time, or all micro-batches if `share` is 0.
  struct Ruin {
    std::size_t first = 0;
    std::size_t second = 0;  ///< index of the second wave; at least `first`
    Cost share = 0;
  };

  bool try_pairs() {
    for (std::size_t first = 0; first < waves_.size(); ++first)
      for (std::size_t second = first + 1; second < waves_.size(); ++second)
        for (const Cost share : {0, 4})
          if (try_on_all_levels({first, second, share})) return true;
    return false;
  }

  /// Applies `ruin` and places the removed items again, on groups of any size. Repeats this with smaller and
  /// smaller maximum sizes of new groups.
  bool try_on_all_levels(const Ruin& ruin) {
    bool improved = false;
    for (highest_ = levels_->count() - 1; highest_ >= 0 && evaluations_left_ > 0; --highest_) {
      if (ruin.second >= waves_.size()) break;
      improved |= try_ruin_and_recreate(ruin);
      if (!has_multi_rank_tasks(ruin.first) && !has_multi_rank_tasks(ruin.second)) break;
    }
    return improved;
  }

  [[nodiscard]] bool has_multi_rank_tasks(std::size_t w) const {
    return w < waves_.size() &&
           std::ranges::any_of(waves_[w].tasks, [](const OpenTask& task) { return task.level > 0; });
  }

  bool try_ruin_and_recreate(const Ruin& ruin) {
    std::vector<Item> items;
    const Cost before_end = end();
    evaluations_left_ -= num_tasks_;
    ++trial_;
    changes_.clear();
    remove_late_tasks(ruin.second, ruin.share, items);
    if (ruin.first != ruin.second) remove_late_tasks(ruin.first, ruin.share, items);
    if (static_cast<std::int64_t>(items.size()) * num_tasks_ <= evaluations_left_ &&
        put_all(std::move(items), before_end))
      return true;
    undo_changes();
    return false;
  }

  /// A change that a trial made to a wave.
  struct Change {
    enum class Kind { changed, erased, added };
    Kind kind = Kind::added;
    std::size_t wave = 0;
    OpenWave before{};
  };

  /// Saves the state of a wave before its first change in a trial.
  void save_before_change(std::size_t w) {
    if (waves_[w].saved_in_trial == trial_) return;
    changes_.push_back({.kind = Change::Kind::changed, .wave = w, .before = waves_[w]});
    waves_[w].saved_in_trial = trial_;
  }

  void erase(std::size_t w) {
    changes_.push_back({.kind = Change::Kind::erased, .wave = w, .before = std::move(waves_[w])});
    waves_.erase(waves_.begin() + static_cast<std::ptrdiff_t>(w));
  }

  void add_wave() {
    changes_.push_back({.kind = Change::Kind::added, .wave = waves_.size()});
    waves_.push_back({.free = all_ranks_, .saved_in_trial = trial_});
  }

  void undo_changes() {
    for (; !changes_.empty(); changes_.pop_back()) {
      Change& last = changes_.back();
      const auto at = waves_.begin() + static_cast<std::ptrdiff_t>(last.wave);
      switch (last.kind) {
        case Change::Kind::changed:
          *at = std::move(last.before);
          break;
        case Change::Kind::erased:
          waves_.insert(at, std::move(last.before));
          break;
        case Change::Kind::added:
          waves_.pop_back();
          break;
      }
    }
  }

  void remove_late_tasks(std::size_t w, Cost share, std::vector<Item>& items) {
    save_before_change(w);
    OpenWave& wave = waves_[w];
    const Cost from = share == 0 ? 0 : wave.time - wave.time / share;
    std::erase_if(wave.tasks, [&](const OpenTask& task) {
      if (task.time < from) return false;
      items.insert(items.end(), task.items.begin(), task.items.end());
      wave.free.release(task.level, task.first);
      return true;
    });
    wave.compute_time();
    if (wave.tasks.empty()) erase(w);
  }

  /// Places all items. Returns whether the waves then end earlier than `before`.
  bool put_all(std::vector<Item> items, Cost before) {
    std::ranges::sort(items, [&](Item left, Item right) {
      return std::pair(-levels_->work(left).work, left) < std::pair(-levels_->work(right).work, right);
    });
    Cost sum = 0;  // sum of the waves' times, without small items
    for (const OpenWave& wave : waves_) sum += wave.time;
    for (const Item item : items) {
      if (sum >= before) return false;
      const WaveSpot spot = best_spot(item);
      put(item, spot);
      sum += spot.longer;
    }
    return end() < before;
  }

  void put(Item item, const WaveSpot& spot) {
    if (spot.wave == waves_.size()) add_wave();
    save_before_change(spot.wave);
    OpenWave& wave = waves_[spot.wave];
    if (spot.task == wave.tasks.size()) {
      wave.tasks.push_back({.first = spot.first, .level = spot.level});
      wave.free.acquire(spot.level, spot.first);
    }
    wave.tasks[spot.task].add(item, *levels_);
    wave.time = std::max(wave.time, wave.tasks[spot.task].time);
  }

  WaveSpot best_spot(Item item) {
    WaveSpot best;
    for (std::size_t w = 0; w < waves_.size(); ++w) {
      consider_tasks(item, w, best);
      consider_free_ranks(item, w, waves_[w].free, waves_[w].time, waves_[w].tasks.size(), best);
    }
    consider_free_ranks(item, waves_.size(), all_ranks_, 0, 0, best);
    return best;
  }

  void consider_tasks(Item item, std::size_t w, WaveSpot& best) {
    const OpenWave& wave = waves_[w];
    evaluations_left_ -= static_cast<std::int64_t>(wave.tasks.size()) + 1;
    for (std::size_t t = 0; t < wave.tasks.size(); ++t) {
      const OpenTask& task = wave.tasks[t];
      if (task.level < levels_->lowest_level(item) || !task.has_room_for(item, *levels_)) continue;
      ContextWork work = task.work;
      work += levels_->work(item);
      consider(levels_->time_at(work, task.level, task.first), wave.time,
               {.wave = w, .task = t, .level = task.level, .first = task.first}, best);
    }
  }

  void consider_free_ranks(Item item, std::size_t w, const FreeRanks& free, Cost wave_time,
                           std::size_t new_task, WaveSpot& best) const {
    const int last = std::max(highest_, levels_->lowest_level(item));
    for (int level = levels_->lowest_level(item); level <= last && levels_->size(level) <= free.count();
         ++level) {
      if (!levels_->fits(item, level)) continue;
      const std::optional<std::int64_t> first = free.find_fastest_block(level);
      if (!first) continue;
      consider(levels_->time_at(levels_->work(item), level, *first), wave_time,
               {.wave = w, .task = new_task, .level = level, .first = *first}, best);
    }
  }

  void consider(Cost time, Cost wave_time, WaveSpot spot, WaveSpot& best) const {
    spot.longer = std::max<Cost>(0, time - wave_time);
    spot.idle = area_within(std::max<Cost>(0, wave_time - time), spot.level, spot.first);
    if (spot.is_better_than(best)) best = spot;
  }

  Waves* result_;
  const Levels* levels_;
  SmallItems small_;
  std::int64_t& evaluations_left_;
  FreeRanks all_ranks_;
  std::int64_t num_tasks_ = 0;
  int highest_ = 0;  ///< maximum level of new groups, except for items that only fit on a higher level
  std::vector<OpenWave> waves_;
  std::int64_t trial_ = 0;
  std::vector<Change> changes_;  ///< changes of the last trial, in order
};

}  // namespace

void improve_waves(Waves& waves, const Levels& levels, const SmallItems& small,
                   std::int64_t& evaluations_left) {
  WaveMoves moves(waves, levels, small, evaluations_left);
  moves.improve();
  moves.write_back();
}

namespace {

/// Assigns consecutive ranks, starting with rank 0, to the groups of one wave. Precondition: `tasks` are in
/// descending order of group size. Sizes are powers of two, so each group begins at a multiple of its size.
void assign_ranks_in_wave(std::span<OpenTask> tasks, const Levels& levels) {
  std::int64_t first = 0;
  for (OpenTask& task : tasks) {
    task.first = first;
    first += levels.size(task.level);
  }
}

}  // namespace

void finalize_waves(Waves& waves, const Levels& levels) {
  std::vector<std::pair<Cost, std::int64_t>> times;
  for (const OpenTask& task : waves.tasks) {
    const auto w = static_cast<std::size_t>(task.wave);
    while (times.size() <= w) times.emplace_back(0, static_cast<std::int64_t>(times.size()));
    times[w].first = std::min(times[w].first, -task.time);
  }
  std::ranges::sort(times);
  std::vector<std::int64_t> numbers(times.size());
  for (std::size_t i = 0; i < times.size(); ++i)
    numbers[static_cast<std::size_t>(times[i].second)] = static_cast<std::int64_t>(i);
  for (OpenTask& task : waves.tasks) task.wave = numbers[static_cast<std::size_t>(task.wave)];
  std::ranges::stable_sort(waves.tasks, [](const OpenTask& left, const OpenTask& right) {
    return std::pair(left.wave, -left.level) < std::pair(right.wave, -right.level);
  });
  for (auto begin = waves.tasks.begin(); begin != waves.tasks.end();) {
    const auto end = std::find_if(begin, waves.tasks.end(),
                                  [&](const OpenTask& task) { return task.wave != begin->wave; });
    if (!levels.speeds().are_unequal()) assign_ranks_in_wave({begin, end}, levels);
    begin = end;
  }
}

}  // namespace evenkeel::context
