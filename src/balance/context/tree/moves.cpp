#include "balance/context/tree/moves.hpp"

#include <algorithm>
#include <utility>

#include "balance/context/block_heights.hpp"
#include "base/search_moves.hpp"

namespace evenkeel::context {

namespace {

/// Where an item can go.
struct Spot {
  Cost area = -1;  ///< more than before: what the ranks together would do in the time that it takes
  Cost end = 0;
  std::size_t task = 0;
  int level = 0;  ///< of a new micro-batch, where `task` is none of the others
  std::size_t block = 0;
};

class TreeMoves {
 public:
  TreeMoves(std::vector<OpenTask>& tasks, const Levels& levels)
      : tasks_(&tasks), levels_(&levels), heights_(levels) {
    for (const OpenTask& task : tasks) heights_.add(task.level, block_of(task), task.time);
  }

  void improve(Cost enough, std::int64_t& looks_left) {
    const auto ranks = heights_.of(0);
    while (looks_left > 0) {
      const auto last = std::ranges::max_element(ranks);
      if (*last <= enough) return;
      limit_ = *last - 1;
      looks_ = 0;
      if (!take_apart(static_cast<std::size_t>(last - ranks.begin())) || !put_all()) undo();
      journal_.clear();
      drop_empty();
      looks_left -= looks_ + static_cast<std::int64_t>(tasks_->size() + ranks.size()) / 4 + 16;
    }
  }

 private:
  [[nodiscard]] std::size_t block_of(const OpenTask& task) const {
    return static_cast<std::size_t>(task.first / levels_->size(task.level));
  }

  /// Those micro-batches of some ranks whose groups are not too large.
  bool take_apart(std::size_t last) {
    items_.clear();
    const auto ranks = heights_.of(0).size();
    const int others = random_.below(4);
    chosen_.assign(1, last);
    for (int i = 0; i < others; ++i) chosen_.push_back(random_.below(ranks));
    const int highest = random_.below(levels_->count());
    const int kept_of_8 = random_.below(5);
    for (std::size_t t = 0; t < tasks_->size(); ++t) {
      const OpenTask& task = (*tasks_)[t];
      if (task.level > highest || !runs_on_chosen(task) || random_.below(8) < kept_of_8) continue;
      items_.insert(items_.end(), task.items.begin(), task.items.end());
      replace(t, {.first = task.first, .level = task.level});
    }
    return !items_.empty();
  }

  [[nodiscard]] bool runs_on_chosen(const OpenTask& task) const {
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

  void drop_empty() {
    std::erase_if(*tasks_, [](const OpenTask& task) { return task.items.empty(); });
  }

  bool put_all() {
    sort_items();
    const bool cheapest = random_.below(2) == 0;
    for (const Item item : items_) {
      const Spot spot = best_spot(item, cheapest);
      if (spot.area < 0) return false;
      put(item, spot);
    }
    return true;
  }

  /// By falling work; in half of the cases only roughly.
  void sort_items() {
    std::vector<std::pair<Cost, Item>> order;
    const int spread = random_.below(2) == 0 ? 1 : 512;
    for (const Item item : items_) {
      const Cost work = levels_->work(item).work;
      order.emplace_back(-(work - work / 1024 * static_cast<Cost>(random_.below(spread))), item);
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
    look_at_tasks(item, consider);
    look_at_blocks(item, consider);
    return best;
  }

  template <typename Consider>
  void look_at_tasks(Item item, const Consider& consider) {
    looks_ += static_cast<std::int64_t>(tasks_->size());
    for (std::size_t t = 0; t < tasks_->size(); ++t) {
      const OpenTask& task = (*tasks_)[t];
      if (task.items.empty() || task.level < levels_->lowest(item)) continue;
      const Cost height = heights_.of(task.level)[block_of(task)];
      if (height > limit_ || !task.has_room_for(item, *levels_)) continue;
      ContextWork work = task.work;
      work += levels_->work(item);
      const std::size_t block = block_of(task);
      const Cost longer = levels_->time_on_block(work, task.level, block) - task.time;
      consider({area_of(longer, task.level, block), height + longer, t, task.level, block});
    }
  }

  template <typename Consider>
  void look_at_blocks(Item item, const Consider& consider) {
    for (int level = levels_->lowest(item); level < levels_->count(); ++level) {
      if (!levels_->fits(item, level)) continue;
      const Cost fastest = levels_->fastest_time(levels_->work(item), level);
      const auto ends = heights_.of(level);
      looks_ += static_cast<std::int64_t>(ends.size());
      for (std::size_t block = 0; block < ends.size(); ++block) {
        const Cost time = levels_->speeds().on_block(fastest, level, block);
        consider({area_of(time, level, block), ends[block] + time, tasks_->size(), level, block});
      }
    }
  }

  [[nodiscard]] Cost area_of(Cost time, int level, std::size_t block) const {
    return levels_->speeds().work_of(time, level, block);
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
  SearchMoves random_;
  Cost limit_ = 0;  ///< no rank may end later
  std::int64_t looks_ = 0;
  std::vector<std::size_t> chosen_;
  std::vector<Item> items_;
  std::vector<std::pair<std::size_t, OpenTask>> journal_;  ///< what tasks were before
};

}  // namespace

void improve_tree(std::vector<OpenTask>& tasks, const Levels& levels, Cost enough, std::int64_t& looks_left) {
  TreeMoves(tasks, levels).improve(enough, looks_left);
}

}  // namespace evenkeel::context
