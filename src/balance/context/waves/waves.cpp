#include "balance/context/waves/waves.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "balance/bins/capped_partition.hpp"
#include "balance/checks.hpp"
#include "balance/context/task.hpp"
#include "balance/context/waves/builder.hpp"
#include "balance/context/waves/moves.hpp"
#include "balance/grid/grid_partition.hpp"
#include "cost/sum_limit.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::context {
namespace {

/// Number of placed items from which the limits of the trials are derived.
constexpr std::int64_t max_wave_placements = 1 << 17;
/// Maximum number of items for which grids of equal-size groups are tried.
constexpr std::int64_t max_in_a_grid = 1 << 14;
/// An end time that exceeds the lower bound by at most 1 / waves_near_enough of it is not improved further.
constexpr Cost waves_near_enough = 4096;
/// Maximum number of possible places (micro-batches and free ranks) that improve_waves() examines per item.
constexpr std::int64_t wave_evaluations_per_item = 1 << 12;
/// Maximum number of results of build_starts(), and also of beam_search_starts(), that are improved.
constexpr std::int64_t max_started = 24;
/// Maximum number of improved starts (WaveSearch::Start) to which the other items are added.
constexpr std::size_t max_filled = 4;
/// Maximum number of starts for which, as another variant, the small items that do not fit are spread evenly
/// over all ranks.
constexpr std::size_t most_even = 4;
constexpr Cost unlimited = sum_limit >> 20;

/// Searches for waves: first places the long items, treating the other items as divisible; then adds the
/// other items; then improves the result. An item is long if it does not fit on one rank, or takes longer
/// than full_time() there.
class WaveSearch {
 public:
  explicit WaveSearch(const Levels& levels)
      : levels_(levels),
        bound_(lower_bound_on(levels)),
        order_(sort_by_descending_work(levels)),
        builder_(levels, order_) {
    full_time_ = full_time();
    classify_items();
    Cost longest = full_time_;
    for (const Item item : long_items_)
      longest = std::max(longest, levels_.time(item, levels_.lowest_level(item)));
    Cost limit = std::min(2 * bound_, longest);
    do {
      limits_.push_back(limit);
      limit -= limit / 6 + 1;
    } while (limit > full_time_ / 4 && limits_.size() < 48);
    for (Cost height = full_time_; heights_.size() < 40; height -= height / 25) heights_.push_back(height);
  }

  [[nodiscard]] Waves find_best() {
    const std::vector<Start> starts = make_improved_starts();
    std::vector<Waves> filled = fill_starts(starts);
    improve_filled(filled);
    try_uniform_waves();
    finalize_waves(best_, levels_);
    return std::move(best_);
  }

 private:
  /// Waves of long items, and the parameters with which they were built.
  struct Start {
    Waves waves;
    WaveTrial trial;
  };

  /// Returns the overhead plus 3/2 times the work of a full micro-batch of average items on one rank.
  [[nodiscard]] Cost full_time() const {
    Cost work = 0;
    std::int64_t tokens = 1;
    for (const Item item : order_) {
      if (levels_.lowest_level(item) > 0) continue;
      work += levels_.work(item).work;
      tokens += levels_.aligned_tokens(item, 0);
    }
    const std::int64_t cap = std::min(levels_.cap(0), tokens);
    return levels_.problem().communication.overhead + work / tokens * cap * 3 / 2 + 1;
  }

  [[nodiscard]] bool is_long(Item item) const {
    return levels_.lowest_level(item) > 0 || levels_.time(item, 0) > full_time_;
  }

  void classify_items() {
    std::int64_t tokens = 0;
    for (const Item item : order_) {
      if (is_long(item)) {
        long_items_.push_back(item);
        continue;
      }
      small_.work += levels_.work(item).work;
      tokens += levels_.aligned_tokens(item, 0);
    }
    if (tokens == 0) return;
    small_.per_token = small_.work / tokens + levels_.problem().communication.overhead / levels_.cap(0);
    small_.work = small_.per_token * tokens;
  }

  /// Returns the number by which the search effort is divided. It increases with the number of items per
  /// rank, because schedules with many waves are balanced without much search.
  [[nodiscard]] std::int64_t effort_divisor() const {
    return 1 + levels_.num_items() / levels_.problem().ranks / 256;
  }

  /// Returns the number of possible places that improve_waves() may examine. It is proportional to the number
  /// of items up to 1024 items, and decreases above 16384 items.
  [[nodiscard]] std::int64_t num_places_to_examine() const {
    const std::int64_t n = levels_.num_items();
    return wave_evaluations_per_item * std::min<std::int64_t>(n, 1024) / (1 + n / 16384);
  }

  [[nodiscard]] bool is_near(Cost end) const { return end - bound_ <= bound_ / waves_near_enough; }

  static bool ends_earlier(const Start& left, const Start& right) { return left.waves.end < right.waves.end; }

  /// Returns waves that contain only the long items, in ascending order of end.
  [[nodiscard]] std::vector<Start> build_starts() const {
    std::vector<Start> starts;
    // Without long items, both starts have no waves. In the first, the first item of a wave gets the group
    // with the least area, which is a single rank if it fits there; in the second, it gets the group on which
    // it is fastest.
    if (long_items_.empty()) {
      return {{.waves = {}, .trial = {.first_limit = unlimited, .height = unlimited}},
              {.waves = {}, .trial = {.height = unlimited}}};
    }
    WaveBuilder builder(levels_, long_items_);
    std::int64_t placements = (max_wave_placements / 2 + levels_.num_items() / 4) / effort_divisor();
    std::int64_t no_evaluations = 0;
    const std::vector<Cost> heights{0, unlimited, full_time_, full_time_ * 3 / 4, full_time_ * 9 / 16};
    for (const Cost height : heights) {
      for (const Cost limit : limits_) {
        if (!starts.empty() && placements <= 0) break;
        Start start{.waves = {}, .trial = {.first_limit = limit, .height = height}};
        start.waves = builder.build(start.trial);
        improve_waves(start.waves, levels_, small_, no_evaluations);
        starts.push_back(std::move(start));
        placements -= std::ssize(long_items_);
      }
    }
    sort_and_deduplicate(starts);
    return starts;
  }

  static void sort_and_deduplicate(std::vector<Start>& starts) {
    std::ranges::stable_sort(starts, ends_earlier);
    const auto same = std::ranges::unique(
        starts, [](const Start& left, const Start& right) { return left.waves.end == right.waves.end; });
    starts.erase(same.begin(), same.end());
  }

  /// Same as build_starts(), but finds waves by a beam search over the height of each wave.
  [[nodiscard]] std::vector<Start> beam_search_starts() const {
    std::vector<Start> starts;
    if (long_items_.empty()) return starts;
    WaveBuilder builder(levels_, long_items_);
    const std::int64_t placements = (8 * max_wave_placements + levels_.num_items()) / effort_divisor();
    if (std::ssize(long_items_) > placements / 64) return starts;
    for (Waves& waves : beam_search_waves(levels_, builder, small_, placements))
      starts.push_back({.waves = std::move(waves), .trial = {.first_limit = unlimited}});
    sort_and_deduplicate(starts);
    return starts;
  }

  void improve(std::vector<Start>& starts) const {
    if (std::ssize(starts) > max_started) starts.resize(max_started);
    std::int64_t evaluations_left = num_places_to_examine() / 2;
    for (Start& start : starts) improve_waves(start.waves, levels_, small_, evaluations_left);
  }

  [[nodiscard]] std::vector<Start> make_improved_starts() const {
    std::vector<Start> starts = build_starts();
    std::vector<Start> searched = beam_search_starts();
    improve(starts);
    improve(searched);
    std::ranges::move(searched, std::back_inserter(starts));
    sort_and_deduplicate(starts);
    return starts;
  }

  /// A start, the slack (WaveTrial::slack) with which other items are added to it, and the resulting end
  /// time.
  struct Filling {
    const Start* start = nullptr;
    Cost slack = 0;
    Cost end = 0;
  };

  /// Returns waves of all items. Completes several starts, then varies the best of them: spreads the
  /// remaining items evenly, and tries several heights for the waves that are added.
  [[nodiscard]] std::vector<Waves> fill_starts(const std::vector<Start>& starts) {
    constexpr std::int64_t few_items = 1 << 15;
    std::int64_t fills = (levels_.num_items() <= few_items ? 2 * max_wave_placements : max_wave_placements) /
                         levels_.num_items();
    std::vector<Waves> filled;
    std::vector<Filling> fillings;
    for (const Start& start : std::span(starts).first(std::min(starts.size(), max_filled))) {
      for (const Cost slack : {0, 64, 16}) {
        if (slack > 0 && long_items_.empty()) break;
        if (!filled.empty() && --fills <= 0) break;
        filled.push_back(fill_up_start({.start = &start, .slack = slack}, unlimited));
        fillings.push_back({.start = &start, .slack = slack, .end = filled.back().end});
      }
    }
    std::ranges::stable_sort(fillings, {}, &Filling::end);
    if (levels_.num_items() <= max_in_a_grid)
      for (const Filling& filling : std::span(fillings).first(std::min(fillings.size(), most_even)))
        filled.push_back(fill_start_and_spread_rest(filling));
    for (const Cost height : heights_)
      if (--fills > 0) filled.push_back(fill_up_start(fillings.front(), height));
    return filled;
  }

  /// Fills up the start, and adds waves that are filled up to `height`.
  [[nodiscard]] Waves fill_up_start(const Filling& filling, Cost height) {
    WaveTrial trial = filling.start->trial;
    trial.slack = filling.slack;
    trial.height = height;
    return builder_.build(trial, filling.start->waves);
  }

  /// Fills up the start, and spreads the remaining small items evenly over all ranks.
  [[nodiscard]] Waves fill_start_and_spread_rest(const Filling& filling) {
    WaveTrial trial = filling.start->trial;
    trial.slack = filling.slack;
    Waves waves = builder_.fill_up(trial, filling.start->waves);
    const std::vector<Item> left = builder_.unplaced_items();
    if (left.empty()) return waves;
    const std::int64_t next = waves.tasks.empty() ? 0 : waves.tasks.back().wave + 1;
    Waves rest = make_uniform_waves(left, levels_, 0);
    for (OpenTask& task : rest.tasks) {
      task.wave += next;
      waves.tasks.push_back(std::move(task));
    }
    waves.end += rest.end;
    return waves;
  }

  /// Improves the best schedules in `filled`, and stores the best one in best_.
  void improve_filled(std::vector<Waves>& filled) {
    std::ranges::stable_sort(filled, {}, &Waves::end);
    Waves* best = &filled.front();
    std::int64_t evaluations_left = 2 * num_places_to_examine();
    for (Waves& waves : filled) {
      if (evaluations_left <= 0 || is_near(best->end)) break;
      improve_waves(waves, levels_, {}, evaluations_left);
      if (waves.end < best->end) best = &waves;
    }
    best_ = std::move(*best);
  }

  /// Tries grids of groups of equal size. If all items are short compared with the cap of a group, grids are
  /// more even than waves that are built one by one.
  void try_uniform_waves() {
    if (levels_.num_items() > max_in_a_grid) return;
    for (int level = 0; level < levels_.count() && !is_near(best_.end); ++level) {
      std::optional<Waves> waves = uniform_waves(levels_, level);
      if (waves && waves->end < best_.end) best_ = *std::move(waves);
    }
  }

  const Levels& levels_;
  Cost bound_;
  std::vector<Item> order_;
  WaveBuilder builder_;
  Cost full_time_ = 0;
  std::vector<Item> long_items_;  ///< the long items, in descending order of work
  SmallItems small_;              ///< totals of the items that are not long
  std::vector<Cost> limits_;
  std::vector<Cost> heights_;
  Waves best_;
};

/// Costs and sizes of items on groups of one size.
struct UniformItems {
  UniformItems(std::span<const Item> items, const Levels& levels, int level) {
    for (const Item item : items) {
      costs.push_back(levels.work(item).work);
      sizes.push_back(levels.aligned_tokens(item, level));
      counts.push_back(levels.problem().count_of(item));
    }
  }
  std::vector<Cost> costs;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> counts;
};

}  // namespace

Schedule schedule_waves(const Problem& problem, std::int64_t multiple_of, std::int64_t min_waves) {
  require_schedulable(problem);
  if (multiple_of < 1)
    throw InputError("multiple_of", "is " + std::to_string(multiple_of) + "; it must be at least 1");
  if (min_waves < 0)
    throw InputError("min_waves", "is " + std::to_string(min_waves) + "; it must be at least 0");
  Schedule schedule;
  if (!problem.items.empty()) {
    const Levels levels(problem);
    Waves waves = best_waves(levels);
    schedule = make_schedule(std::move(waves.tasks), levels);
    schedule.end = waves.end;
  }
  const std::int64_t used = schedule.tasks.empty() ? 0 : schedule.tasks.back().wave + 1;
  schedule.waves = balance_checks::ceil_div(std::max(used, min_waves), multiple_of) * multiple_of;
  return schedule;
}

Waves best_waves(const Levels& levels) {
  return WaveSearch(levels).find_best();
}

Waves make_uniform_waves(std::vector<Item> items, const Levels& levels, int level) {
  const UniformItems uniform(items, levels, level);
  const BinItems bins(uniform.sizes, uniform.counts);
  const BinLimits limits{levels.cap(level), levels.problem().limits.max_items};
  const std::int64_t rows = levels.num_blocks(level);
  const std::int64_t cells = count_groups(uniform.costs, bins, limits).needed;
  const GridShape shape{rows, std::max<std::int64_t>(1, balance_checks::ceil_div(cells, rows))};
  const Partition grid = partition_into_grid(uniform.costs, bins, limits, shape);
  Waves waves;
  std::vector<Cost> longest(static_cast<std::size_t>(shape.columns));
  for (std::int64_t cell = 0; cell < grid.size(); ++cell) {
    if (grid[cell].empty()) continue;
    OpenTask task;
    task.first = cell / shape.columns * levels.size(level);
    task.level = level;
    task.wave = cell % shape.columns;
    for (const Item at : grid[cell]) task.add(items[static_cast<std::size_t>(at)], levels);
    Cost& of_wave = longest[static_cast<std::size_t>(task.wave)];
    of_wave = std::max(of_wave, task.time);
    waves.tasks.push_back(std::move(task));
  }
  std::ranges::stable_sort(waves.tasks, {}, &OpenTask::wave);
  for (const Cost time : longest) waves.end += time;
  return waves;
}

std::optional<Waves> uniform_waves(const Levels& levels, int level) {
  std::vector<Item> items(static_cast<std::size_t>(levels.num_items()));
  std::iota(items.begin(), items.end(), Item{0});
  if (std::ranges::any_of(items, [&](Item item) { return !levels.fits(item, level); })) return std::nullopt;
  return make_uniform_waves(std::move(items), levels, level);
}

}  // namespace evenkeel::context
