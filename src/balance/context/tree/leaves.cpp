#include "balance/context/tree/leaves.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>

#include "balance/partition/first_to_end.hpp"

namespace evenkeel::context {

namespace {

/// The micro-batches of one rank that have room, by rising room.
class RankTasks {
 public:
  /// The one with least room that suffices, or -1.
  [[nodiscard]] std::int64_t find(std::int64_t size, std::int64_t count, const std::vector<OpenTask>& tasks,
                                  std::int64_t max_items) const {
    constexpr int looked_at = 16;
    auto at = std::ranges::lower_bound(open_, Open{size, 0});
    for (int looked = 0; at != open_.end() && looked < looked_at; ++at, ++looked) {
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

/// A micro-batch with less room than any of the items takes has none.
std::int64_t least_size(const Levels& levels, std::span<const Item> items) {
  std::int64_t least = levels.cap(0);
  for (const Item item : items) least = std::min(least, levels.aligned(item, 0));
  return least;
}

}  // namespace

void place_tree_leaves(const Levels& levels, std::span<const Item> items, std::vector<Cost>& heights,
                       std::vector<OpenTask>& tasks) {
  std::vector<RankTasks> ranks(heights.size());
  FirstToEnd first(levels, 0, heights);
  const std::int64_t max_items = levels.problem().limits.max_items;
  const std::int64_t least = least_size(levels, items);
  for (const Item item : items) {
    const auto r = static_cast<std::size_t>(first.find(levels.work(item).work));
    const std::int64_t size = levels.aligned(item, 0);
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
    first.set_found(heights[r]);
  }
}

}  // namespace evenkeel::context
