#include "balance/context/tree/tree.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "balance/context/free_ranks.hpp"
#include "balance/context/levels.hpp"
#include "balance/context/task.hpp"
#include "balance/context/tree/top.hpp"
#include "balance/context/waves/waves.hpp"
#include "base/hash.hpp"

namespace evenkeel::context {
namespace {

/// Maximum number of items placed, summed over the trials that place all items. The trials that only place
/// the items of groups of several ranks have limits of their own, which are derived from this number.
constexpr std::int64_t max_placed = 1 << 17;
constexpr std::int64_t max_trials = 64;
/// Maximum number of possible places (micro-batches and blocks) that improve_tree() examines per item.
constexpr std::int64_t evaluations_per_item = 1 << 12;
/// An end time that exceeds the lower bound by at most 1 / near_enough of it is not improved further.
constexpr Cost near_enough = 4096;

/// The micro-batches of a schedule, and the busy time of each rank.
struct Tree {
  std::vector<OpenTask> tasks;
  std::vector<Cost> heights;

  [[nodiscard]] Cost end() const { return *std::ranges::max_element(heights); }

  void sort_tasks_and_compute_heights(const Levels& levels) {
    std::ranges::fill(heights, 0);
    for (const OpenTask& task : tasks) {
      const auto first = heights.begin() + task.first;
      std::for_each(first, first + levels.size(task.level), [&](Cost& height) { height += task.time; });
    }
    std::ranges::stable_sort(tasks, std::ranges::greater{}, &OpenTask::level);
  }
};

/// The group size (level) and the block of ranks that a trial chooses for a long item.
struct Place {
  int level = 0;
  std::int64_t block = -1;  ///< -1 if any block is allowed, and for single ranks (level 0)

  friend bool operator==(const Place&, const Place&) = default;
};
using Choice = std::vector<Place>;

class TreeSearch {
 public:
  explicit TreeSearch(const Levels& levels) : levels_(levels), bound_(lower_bound_on(levels)) {
    constexpr Cost longs_share = 16;
    for (const Item item : sort_by_descending_work(levels)) {
      leaf_work_ += leaf_work(item);
      const bool is_long = levels.lowest_level(item) > 0 || levels.time(item, 0) > bound_ / longs_share;
      (is_long ? long_items_ : short_items_).push_back(item);
    }
    const std::size_t places = long_items_.size() * static_cast<std::size_t>(levels.count());
    times_.reserve(places);
    areas_.reserve(places);
    for (const Item item : long_items_) {
      for (int level = 0; level < levels.count(); ++level) {
        const bool fits = levels.fits(item, level);
        times_.push_back(fits ? levels.time(item, level) : -1);
        areas_.push_back(levels.area(item, level));
      }
    }
  }

  [[nodiscard]] Tree find_best() {
    std::vector<std::pair<Cost, Choice>> choices = trial_choices();
    for (const auto& [end, choice] : choices) {
      if (!should_continue_search()) break;
      if (!best_.tasks.empty() && end >= best_.end()) break;
      try_choice(choice);
    }
    improve_levels();
    improve_places();
    try_waves();
    return std::move(best_);
  }

 private:
  /// Returns the work of an item on a single rank (a leaf), including its share of the overhead of full
  /// micro-batches.
  [[nodiscard]] Cost leaf_work(Item item) const {
    const std::int64_t cap = std::max<std::int64_t>(levels_.cap(0), 1);
    const Cost overhead = levels_.problem().communication.overhead;
    const std::int64_t tokens = levels_.aligned_tokens(item, 0);
    return levels_.work(item).work + overhead / cap * tokens + overhead % cap * (tokens % cap) / cap;
  }

  [[nodiscard]] bool should_continue_search() const {
    return best_.tasks.empty() ||
           (placements_left_ >= levels_.num_items() && best_.end() - bound_ > bound_ / near_enough);
  }

  /// Returns choices with their estimated ends, in ascending order of end. There is one choice per trial
  /// length: each long item gets the group size with the least area among those on which it takes at most
  /// this length. In addition, there are the choices of add_fitted_choices().
  [[nodiscard]] std::vector<std::pair<Cost, Choice>> trial_choices() {
    const auto longs = static_cast<std::int64_t>(long_items_.size());
    const std::int64_t trials = std::clamp<std::int64_t>(max_placed / 2 / (longs + 1), 4, max_trials);
    const bool are_many = trials >= 16;
    std::vector<std::pair<Cost, Choice>> choices;
    Cost trial = are_many ? 4 * bound_ : bound_;
    for (std::int64_t t = 0; t < trials; ++t, trial -= are_many ? trial * 5 / trials : trial / 2) {
      Choice choice(long_items_.size());
      for (std::size_t i = 0; i < long_items_.size(); ++i) choice[i].level = cheapest_level_within(i, trial);
      if (std::ranges::any_of(choices, [&](const auto& other) { return other.second == choice; })) continue;
      const Cost end = estimate_end(choice);
      choices.emplace_back(end, std::move(choice));
    }
    add_fitted_choices(choices);
    std::ranges::stable_sort(choices, {}, &std::pair<Cost, Choice>::first);
    return choices;
  }

  /// Adds the choices that fit_into_blocks() makes for several time limits. Does nothing if there are too
  /// many long items.
  void add_fitted_choices(std::vector<std::pair<Cost, Choice>>& choices) {
    const auto longs = static_cast<std::int64_t>(long_items_.size());
    const std::int64_t fits =
        std::min<std::int64_t>(16, max_placed * 32 / (1 + longs * levels_.problem().ranks));
    std::vector<LeveledItem> items;
    for (const Item item : long_items_) items.push_back({.item = item});
    Cost limit = bound_;
    for (std::int64_t fit = 0; fit < fits; ++fit) {
      limit += bound_ / 1024 * (1 + fit * fit / 4) * 16 / fits;
      fit_into_blocks(levels_, items, limit);
      Choice choice;
      for (const LeveledItem& entry : items)
        choice.push_back({entry.level, entry.level > 0 ? entry.block : -1});
      const Cost end = estimate_end(choice);
      choices.emplace_back(end, std::move(choice));
    }
  }

  /// Same as Levels::cheapest_level_within(), for a long item.
  [[nodiscard]] int cheapest_level_within(std::size_t i, Cost limit) const {
    const auto count = static_cast<std::size_t>(levels_.count());
    const auto times = std::span(times_).subspan(i * count, count);
    const auto areas = std::span(areas_).subspan(i * count, count);
    std::size_t cheapest = count;
    std::size_t fastest = count;
    for (std::size_t level = 0; level < count; ++level) {
      if (times[level] < 0) continue;
      if (fastest == count || times[level] < times[fastest]) fastest = level;
      if (times[level] > limit) continue;
      if (cheapest == count || areas[level] < areas[cheapest]) cheapest = level;
    }
    return static_cast<int>(cheapest == count ? fastest : cheapest);
  }

  [[nodiscard]] std::vector<LeveledItem> top_items(const Choice& choice) const {
    std::vector<LeveledItem> items;
    for (std::size_t i = 0; i < choice.size(); ++i)
      if (choice[i].level > 0) items.push_back({long_items_[i], choice[i].level, choice[i].block});
    return items;
  }

  /// Estimates the end of the schedule for a choice, treating the items on single ranks as divisible work.
  [[nodiscard]] Cost estimate_end(const Choice& choice) {
    const std::vector<LeveledItem> items = top_items(choice);
    Cost leaves = leaf_work_;
    for (const LeveledItem& entry : items) leaves -= leaf_work(entry.item);
    place_tree_top(levels_, items, trial_top_);
    return levels_.speeds().even_end(trial_top_.heights, leaves);
  }

  /// Builds the tree for a choice, and keeps the tree if it ends earlier than all trees before. Returns
  /// whether the tree was kept.
  bool try_choice(const Choice& choice) {
    TreeTop top;
    top.tasks.reserve(static_cast<std::size_t>(levels_.num_items()));
    place_tree_top(levels_, top_items(choice), top);
    std::vector<Item> leaves;
    leaves.reserve(long_items_.size() + short_items_.size());
    for (std::size_t i = 0; i < choice.size(); ++i)
      if (choice[i].level == 0) leaves.push_back(long_items_[i]);
    merge_short_items(leaves);
    Tree tree{.tasks = std::move(top.tasks), .heights = std::move(top.heights)};
    place_tree_leaves(levels_, leaves, tree.heights, tree.tasks);
    placements_left_ -= levels_.num_items() + static_cast<std::int64_t>(tree.heights.size());
    if (!best_.tasks.empty() && tree.end() >= best_.end()) return false;
    best_ = std::move(tree);
    best_choice_ = choice;
    return true;
  }

  /// Merges the short items into `leaves` (the items for single ranks) in descending order of work, since
  /// some long items have less work than some short ones.
  void merge_short_items(std::vector<Item>& leaves) const {
    const auto middle = static_cast<std::ptrdiff_t>(leaves.size());
    leaves.insert(leaves.end(), short_items_.begin(), short_items_.end());
    std::ranges::inplace_merge(leaves, leaves.begin() + middle, [&](Item left, Item right) {
      return std::pair(-levels_.work(left).work, left) < std::pair(-levels_.work(right).work, right);
    });
  }

  /// Moves one item at a time to a larger or smaller group, as long as that makes the schedule end earlier.
  void improve_levels() {
    bool improved = true;
    while (improved && should_continue_search()) {
      improved = false;
      for (std::size_t i = 0; i < long_items_.size() && should_continue_search(); ++i) {
        for (const int step : {1, -1}) {
          Choice choice = best_choice_;
          const int level = choice[i].level + step;
          choice[i] = {.level = level};
          if (level < 0 || level >= levels_.count() || !levels_.fits(long_items_[i], level)) continue;
          if (levels_.time(long_items_[i], level) >= best_.end()) continue;
          improved |= try_choice(choice);
        }
      }
    }
  }

  void improve_places() {
    const std::int64_t n = levels_.num_items();
    const std::int64_t max_evaluations = evaluations_per_item * std::min<std::int64_t>(n, 1024);
    std::int64_t evaluations_left = max_evaluations / (1 + n / 4096);
    if (levels_.problem().ranks + std::ssize(best_.tasks) > evaluations_left / 1024) return;
    improve_tree(best_.tasks, levels_, bound_ + bound_ / near_enough, evaluations_left);
    best_.sort_tasks_and_compute_heights(levels_);
  }

  [[nodiscard]] bool is_near_bound(Cost part) const { return best_.end() - bound_ <= bound_ / part; }

  /// Tries schedules that consist of waves: first waves of groups of equal size, then best_waves(). Blocks
  /// are nested, so any waves are also a valid tree, which ends no later than the waves.
  void try_waves() {
    constexpr std::int64_t most_items = 1 << 14;
    // Finding the best waves is slow, so they are tried only if the tree ends more than 1/512 above the
    // bound.
    constexpr Cost max_behind = 512;
    if (levels_.num_items() > most_items) return;
    for (int level = 0; level < levels_.count() && !is_near_bound(near_enough); ++level) {
      if (std::optional<Waves> waves = uniform_waves(levels_, level)) try_tasks(std::move(waves->tasks));
    }
    if (!is_near_bound(max_behind)) try_tasks(best_waves(levels_).tasks);
  }

  void try_tasks(std::vector<OpenTask> tasks) {
    for (OpenTask& task : tasks) task.wave = -1;
    Tree tree{.tasks = std::move(tasks), .heights = std::vector<Cost>(best_.heights.size())};
    tree.sort_tasks_and_compute_heights(levels_);
    if (tree.end() >= best_.end()) return;
    best_ = std::move(tree);
    improve_places();
  }

  const Levels& levels_;
  Cost bound_;
  std::vector<Item> long_items_;   ///< long items in descending order of work; a Choice has a place for each
  std::vector<Item> short_items_;  ///< the other items, in descending order of work
  Cost leaf_work_ = 0;             ///< sum of leaf_work() over all items
  std::vector<Cost> times_;        ///< time of each long item on each level; -1 if it does not fit
  std::vector<Cost> areas_;
  std::int64_t placements_left_ = max_placed;
  TreeTop trial_top_;
  Tree best_;
  Choice best_choice_;
};

/// A possible place for an item: a micro-batch, or a block on which a new micro-batch could run.
struct Spot {
  Cost area = -1;  ///< number of ranks times the increase in time; -1 if there is no place
  Cost end = 0;
  std::size_t task = 0;
  int level = 0;  ///< level (index of the group size) of the micro-batch
  std::size_t block = 0;
};

class TreeMoves {
 public:
  TreeMoves(std::vector<OpenTask>& tasks, const Levels& levels)
      : tasks_(&tasks), levels_(&levels), heights_(levels) {
    for (const OpenTask& task : tasks) heights_.add(task.level, block_of(task), task.time);
  }

  void improve(Cost enough, std::int64_t& evaluations_left) {
    const auto ranks = heights_.heights_at(0);
    while (evaluations_left > 0) {
      const auto last = std::ranges::max_element(ranks);
      if (*last <= enough) return;
      limit_ = *last - 1;
      num_evaluations_ = 0;
      if (!remove_micro_batches(static_cast<std::size_t>(last - ranks.begin())) || !put_all()) undo();
      journal_.clear();
      drop_empty_tasks();
      evaluations_left -=
          num_evaluations_ + static_cast<std::int64_t>(tasks_->size() + ranks.size()) / 4 + 16;
    }
  }

 private:
  [[nodiscard]] std::size_t block_of(const OpenTask& task) const {
    return static_cast<std::size_t>(task.first / levels_->size(task.level));
  }

  /// Empties some of the micro-batches that run on rank `last` or on a few random other ranks, except for
  /// micro-batches of groups above a random size. Returns whether any items were removed.
  bool remove_micro_batches(std::size_t last) {
    items_.clear();
    const auto ranks = heights_.heights_at(0).size();
    const int others = random_.random_below(4);
    chosen_.assign(1, last);
    for (int i = 0; i < others; ++i) chosen_.push_back(random_.random_below(ranks));
    const int highest = random_.random_below(levels_->count());
    const int kept_of_8 = random_.random_below(5);
    for (std::size_t t = 0; t < tasks_->size(); ++t) {
      const OpenTask& task = (*tasks_)[t];
      if (task.level > highest || !runs_on_chosen_rank(task) || random_.random_below(8) < kept_of_8) continue;
      items_.insert(items_.end(), task.items.begin(), task.items.end());
      replace(t, {.first = task.first, .level = task.level});
    }
    return !items_.empty();
  }

  [[nodiscard]] bool runs_on_chosen_rank(const OpenTask& task) const {
    return std::ranges::any_of(chosen_, [&](std::size_t rank) {
      const auto r = static_cast<std::int64_t>(rank);
      return task.first <= r && r < task.first + levels_->size(task.level);
    });
  }

  void replace(std::size_t at, OpenTask task) {
    OpenTask& here = (*tasks_)[at];
    heights_.add(here.level, block_of(here), task.time - here.time);
    journal_.emplace_back(at, std::exchange(here, std::move(task)));
  }

  void undo() {
    while (!journal_.empty()) {
      auto [at, before] = std::move(journal_.back());
      journal_.pop_back();
      OpenTask& here = (*tasks_)[at];
      heights_.add(here.level, block_of(here), before.time - here.time);
      here = std::move(before);
    }
  }

  void drop_empty_tasks() {
    std::erase_if(*tasks_, [](const OpenTask& task) { return task.items.empty(); });
  }

  bool put_all() {
    sort_items();
    const bool cheapest = random_.random_below(2) == 0;
    for (const Item item : items_) {
      const Spot spot = best_spot(item, cheapest);
      if (spot.area < 0) return false;
      put(item, spot);
    }
    return true;
  }

  /// Sorts items in descending order of work; with probability 1/2, only approximately.
  void sort_items() {
    std::vector<std::pair<Cost, Item>> order;
    const int spread = random_.random_below(2) == 0 ? 1 : 512;
    for (const Item item : items_) {
      const Cost work = levels_->work(item).work;
      order.emplace_back(-(work - work / 1024 * static_cast<Cost>(random_.random_below(spread))), item);
    }
    std::ranges::sort(order);
    for (std::size_t i = 0; i < order.size(); ++i) items_[i] = order[i].second;
  }

  Spot best_spot(Item item, bool cheapest) {
    Spot best;
    const auto consider = [&](const Spot& spot) {
      if (spot.end > limit_) return;
      const bool is_better = cheapest ? std::pair(spot.area, -spot.end) < std::pair(best.area, -best.end)
                                      : std::pair(spot.end, spot.area) < std::pair(best.end, best.area);
      if (best.area < 0 || is_better) best = spot;
    };
    consider_tasks(item, consider);
    consider_blocks(item, consider);
    return best;
  }

  template <typename Consider>
  void consider_tasks(Item item, const Consider& consider) {
    num_evaluations_ += static_cast<std::int64_t>(tasks_->size());
    for (std::size_t t = 0; t < tasks_->size(); ++t) {
      const OpenTask& task = (*tasks_)[t];
      if (task.items.empty() || task.level < levels_->lowest_level(item)) continue;
      const Cost height = heights_.heights_at(task.level)[block_of(task)];
      if (height > limit_ || !task.has_room_for(item, *levels_)) continue;
      ContextWork work = task.work;
      work += levels_->work(item);
      const std::size_t block = block_of(task);
      const Cost longer = levels_->time_on_block(work, task.level, block) - task.time;
      consider({area_of(longer, task.level, block), height + longer, t, task.level, block});
    }
  }

  template <typename Consider>
  void consider_blocks(Item item, const Consider& consider) {
    for (int level = levels_->lowest_level(item); level < levels_->count(); ++level) {
      if (!levels_->fits(item, level)) continue;
      const Cost fastest = levels_->fastest_time(levels_->work(item), level);
      const auto ends = heights_.heights_at(level);
      num_evaluations_ += static_cast<std::int64_t>(ends.size());
      for (std::size_t block = 0; block < ends.size(); ++block) {
        const Cost time = levels_->speeds().block_time(fastest, level, block);
        consider({area_of(time, level, block), ends[block] + time, tasks_->size(), level, block});
      }
    }
  }

  [[nodiscard]] Cost area_of(Cost time, int level, std::size_t block) const {
    return levels_->speeds().work_in(time, level, block);
  }

  void put(Item item, const Spot& spot) {
    if (spot.task == tasks_->size()) {
      tasks_->push_back(
          {.first = static_cast<std::int64_t>(spot.block) * levels_->size(spot.level), .level = spot.level});
    }
    OpenTask task = (*tasks_)[spot.task];
    task.add(item, *levels_);
    replace(spot.task, std::move(task));
  }

  std::vector<OpenTask>* tasks_;
  const Levels* levels_;
  BlockHeights heights_;
  SplitMix64 random_;
  Cost limit_ = 0;  ///< latest time at which a rank that gets an item may end
  std::int64_t num_evaluations_ = 0;
  std::vector<std::size_t> chosen_;
  std::vector<Item> items_;
  /// Index and previous state of each task that the current trial changed, for undo().
  std::vector<std::pair<std::size_t, OpenTask>> journal_;
};

}  // namespace

Schedule schedule_tree(const Problem& problem) {
  require_schedulable(problem);
  if (problem.items.empty()) return {};
  const Levels levels(problem);
  Tree tree = TreeSearch(levels).find_best();
  const Cost end = tree.end();
  Schedule schedule = make_schedule(std::move(tree.tasks), levels);
  schedule.end = end;
  return schedule;
}

void improve_tree(std::vector<OpenTask>& tasks, const Levels& levels, Cost enough,
                  std::int64_t& evaluations_left) {
  TreeMoves(tasks, levels).improve(enough, evaluations_left);
}

}  // namespace evenkeel::context
