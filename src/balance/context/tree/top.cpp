#include "balance/context/tree/top.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <tuple>

#include "balance/context/free_ranks.hpp"
#include "balance/partition/least_loaded.hpp"

namespace evenkeel::context {
namespace {

/// Maximum number of a block's micro-batches that are examined for room for an item.
constexpr int max_tasks_to_examine = 16;

/// The blocks of one level, and the micro-batches of each.
class LevelBlocks {
 public:
  LevelBlocks(const Levels& levels, int level, const std::vector<Cost>& starts, std::vector<OpenTask>& tasks)
      : levels_(&levels),
        level_(level),
        tasks_(&tasks),
        first_(levels, level, starts),
        newest_(starts.size(), none) {}

  void place(Item item, std::vector<Cost>& heights) {
    const std::int64_t block = first_.find(levels_->fastest_time(levels_->work(item), level_));
    place_on(item, block, heights);
    first_.set_load_of_found(heights[static_cast<std::size_t>(block)]);
  }
  void place_on(Item item, std::int64_t number, std::vector<Cost>& heights) {
    const auto block = static_cast<std::size_t>(number);
    const std::int64_t tokens = levels_->aligned_tokens(item, level_);
    const std::int64_t samples = levels_->problem().count_of(item);
    OpenTask& task = (*tasks_)[find_or_add_task(tokens, samples, block)];
    const Cost before = task.time;
    task.add(item, tokens, samples, *levels_);
    heights[block] += task.time - before;
  }
  /// Sets the busy times of the blocks, from which place() chooses a block. Must be called after place_on(),
  /// which does not update them.
  void reset_heights(const std::vector<Cost>& heights) { first_ = EarliestFinish(*levels_, level_, heights); }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  /// Returns the index in `tasks_` of the fullest micro-batch with room among the block's newest ones, or of
  /// a new micro-batch if none of these has room.
  std::size_t find_or_add_task(std::int64_t tokens, std::int64_t samples, std::size_t block) {
    std::size_t fullest = none;
    std::size_t at = newest_[block];
    for (int examined = 0; at != none && examined < max_tasks_to_examine;
         ++examined, at = previous_[at - offset_]) {
      const OpenTask& task = (*tasks_)[at];
      if (!task.has_room_for(tokens, samples, *levels_)) continue;
      if (fullest == none || task.used > (*tasks_)[fullest].used) fullest = at;
    }
    if (fullest != none) return fullest;
    if (previous_.empty()) offset_ = tasks_->size();
    previous_.push_back(newest_[block]);
    newest_[block] = tasks_->size();
    tasks_->push_back({.first = static_cast<std::int64_t>(block) * levels_->size(level_), .level = level_});
    return newest_[block];
  }

  const Levels* levels_;
  int level_;
  std::vector<OpenTask>* tasks_;
  EarliestFinish first_;
  std::vector<std::size_t> newest_;  ///< by block: index in `tasks_` of its newest task; `none` without tasks
  /// By task of this level: index in `tasks_` of the next older task of its block; `none` without one.
  std::vector<std::size_t> previous_;
  std::size_t offset_ = 0;  ///< index in `tasks_` of the first task of this level
};

/// Returns the busy time of each block of a level. `ranks` contains the busy time of each rank. Precondition:
/// all ranks of a block have equal busy times.
std::vector<Cost> heights_of_blocks(const std::vector<Cost>& ranks, const Levels& levels, int level) {
  std::vector<Cost> blocks(static_cast<std::size_t>(levels.num_blocks(level)));
  for (std::size_t b = 0; b < blocks.size(); ++b)
    blocks[b] = ranks[b * static_cast<std::size_t>(levels.size(level))];
  return blocks;
}

void set_heights(const std::vector<Cost>& blocks, const Levels& levels, int level, std::vector<Cost>& ranks) {
  auto next = ranks.begin();
  for (const Cost height : blocks) next = std::fill_n(next, levels.size(level), height);
}

/// An item to be placed on its level. `anywhere` is set if the item may go to any block; otherwise, it goes
/// to `block`.
struct TopItem {
  bool anywhere;
  Cost time;
  Item item;
  std::int64_t block;
};

bool is_placed_before(const TopItem& left, const TopItem& right) {
  return std::tuple(left.anywhere, -left.time, left.item) <
         std::tuple(right.anywhere, -right.time, right.item);
}

std::vector<std::vector<TopItem>> group_by_level(const Levels& levels, std::span<const LeveledItem> items) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(levels.count()));
  for (const LeveledItem& entry : items) ++counts[static_cast<std::size_t>(entry.level)];
  std::vector<std::vector<TopItem>> of_levels(counts.size());
  for (std::size_t level = 0; level < counts.size(); ++level) of_levels[level].reserve(counts[level]);
  for (const auto& [item, level, block] : items)
    of_levels[static_cast<std::size_t>(level)].push_back({block < 0, levels.time(item, level), item, block});
  return of_levels;
}

/// The micro-batches of one rank that still have room, in ascending order of room.
class RankTasks {
 public:
  /// Returns the position of the micro-batch with the least room among the examined ones with room for `size`
  /// tokens and `count` samples; -1 if there is none.
  [[nodiscard]] std::int64_t find(std::int64_t size, std::int64_t count, const std::vector<OpenTask>& tasks,
                                  std::int64_t max_items) const {
    constexpr int max_examined_tasks = 16;
    auto at = std::ranges::lower_bound(open_, Open{size, 0});
    for (int examined = 0; at != open_.end() && examined < max_examined_tasks; ++at, ++examined) {
      if (tasks[static_cast<std::size_t>(at->task)].count + count <= max_items)
        return static_cast<std::int64_t>(at - open_.begin());
    }
    return -1;
  }
  [[nodiscard]] std::int64_t task(std::int64_t place) const {
    return open_[static_cast<std::size_t>(place)].task;
  }
  void remove(std::int64_t place) { open_.erase(open_.begin() + place); }
  void insert(std::int64_t room, std::int64_t task) {
    const Open entry{room, task};
    open_.insert(std::ranges::upper_bound(open_, entry), entry);
  }

 private:
  struct Open {
    std::int64_t room = 0;
    std::int64_t task = 0;

    friend auto operator<=>(const Open&, const Open&) = default;
  };

  std::vector<Open> open_;
};

/// Returns the size of the smallest item in aligned tokens on one rank. A micro-batch with less room than
/// this cannot take any of the items.
std::int64_t min_size(const Levels& levels, std::span<const Item> items) {
  std::int64_t least = levels.cap(0);
  for (const Item item : items) least = std::min(least, levels.aligned_tokens(item, 0));
  return least;
}

}  // namespace

void place_tree_top(const Levels& levels, std::span<const LeveledItem> items, TreeTop& top) {
  std::vector<std::vector<TopItem>> of_levels = group_by_level(levels, items);
  top.tasks.clear();
  top.heights.assign(static_cast<std::size_t>(levels.problem().ranks), 0);
  for (int level = levels.count() - 1; level > 0; --level) {
    std::vector<TopItem>& here = of_levels[static_cast<std::size_t>(level)];
    if (here.empty()) continue;
    // Skip sorting if the items are already sorted, which is usually the case.
    if (!std::ranges::is_sorted(here, is_placed_before)) std::ranges::sort(here, is_placed_before);
    std::vector<Cost> heights = heights_of_blocks(top.heights, levels, level);
    LevelBlocks blocks(levels, level, heights, top.tasks);
    const auto anywhere = std::ranges::find(here, true, &TopItem::anywhere);
    for (auto next = here.begin(); next != anywhere; ++next)
      blocks.place_on(next->item, next->block, heights);
    blocks.reset_heights(heights);
    for (auto next = anywhere; next != here.end(); ++next) blocks.place(next->item, heights);
    set_heights(heights, levels, level, top.heights);
  }
}

namespace {

/// A possible block for an item, with the area of the item and the time at which it would end there.
struct Fit {
  Cost area = -1;
  Cost end = 0;
  int level = 0;
  std::size_t block = 0;
};

Fit best_fit(const Levels& levels, const BlockHeights& heights, Item item, Cost limit) {
  Fit best;
  Fit first;
  for (int level = levels.lowest_level(item); level < levels.count(); ++level) {
    if (!levels.fits(item, level)) continue;
    const Cost fastest = levels.fastest_time(levels.work(item), level);
    const Cost least_area = levels.area(item, level);
    const std::span<const Cost> ends = heights.heights_at(level);
    for (std::size_t block = 0; block < ends.size(); ++block) {
      const Cost time = levels.speeds().block_time(fastest, level, block);
      // Ranks that wait for slower ranks could do other work in that time, so the waiting time also counts as
      // area.
      const Cost area =
          levels.speeds().are_unequal() ? levels.speeds().work_in(time, level, block) : least_area;
      const Fit here{area, ends[block] + time, level, block};
      if (first.area < 0 || here.end < first.end) first = here;
      if (here.end > limit) continue;
      if (best.area < 0 || area < best.area || (area == best.area && here.end > best.end)) best = here;
    }
  }
  return best.area < 0 ? first : best;
}

}  // namespace

void fit_into_blocks(const Levels& levels, std::span<LeveledItem> items, Cost limit) {
  BlockHeights heights(levels);
  for (LeveledItem& entry : items) {
    const Fit fit = best_fit(levels, heights, entry.item, limit);
    entry.level = fit.level;
    entry.block = static_cast<std::int64_t>(fit.block);
    heights.add(fit.level, fit.block, levels.time_on_block(levels.work(entry.item), fit.level, fit.block));
  }
}

void place_tree_leaves(const Levels& levels, std::span<const Item> items, std::vector<Cost>& heights,
                       std::vector<OpenTask>& tasks) {
  std::vector<RankTasks> ranks(heights.size());
  EarliestFinish first(levels, 0, heights);
  const std::int64_t max_items = levels.problem().limits.max_items;
  const std::int64_t least = min_size(levels, items);
  for (const Item item : items) {
    const auto r = static_cast<std::size_t>(first.find(levels.work(item).work));
    const std::int64_t size = levels.aligned_tokens(item, 0);
    const std::int64_t place = ranks[r].find(size, levels.problem().count_of(item), tasks, max_items);
    auto at = static_cast<std::int64_t>(tasks.size());
    if (place >= 0) {
      at = ranks[r].task(place);
      ranks[r].remove(place);
    } else {
      tasks.push_back({.first = static_cast<std::int64_t>(r)});
    }
    OpenTask& task = tasks[static_cast<std::size_t>(at)];
    const Cost before = task.time;
    task.add(item, levels);
    const std::int64_t room = levels.cap(0) - task.used;
    if (task.count < max_items && room >= least) ranks[r].insert(room, at);
    heights[r] += task.time - before;
    first.set_load_of_found(heights[r]);
  }
}

}  // namespace evenkeel::context
