#include "balance/context_tree.hpp"

#include <algorithm>
#include <utility>

#include "balance/checks.hpp"
#include "balance/context_levels.hpp"
#include "balance/context_task.hpp"
#include "balance/context_tree_leaves.hpp"
#include "balance/context_tree_top.hpp"
#include "balance/item_order.hpp"

namespace evenkeel {

namespace {

/// Items by falling work, of equal work the first first.
std::vector<Item> by_falling_work(const ContextLevels& levels) {
  std::vector<Cost> works(static_cast<std::size_t>(levels.num_items()));
  for (std::size_t i = 0; i < works.size(); ++i) works[i] = levels.work(static_cast<Item>(i)).work;
  std::vector<Item> order;
  order.reserve(works.size());
  for (const CostedItem& entry : descending_items_smaller_first(works)) order.push_back(entry.item);
  return order;
}

/// Which items run above the leaves, for each a level; and what is left for the leaves.
struct Split {
  std::vector<LevelledItem> top;
  Cost leaves = 0;
};

class TreeSearch {
 public:
  explicit TreeSearch(const ContextLevels& levels) : levels_(levels), order_(by_falling_work(levels)) {
    const Cost overhead = levels.problem().communication.overhead;
    const std::int64_t cap = std::max<std::int64_t>(levels.cap(0), 1);
    for (const Item item : order_) leaf_cost_ += leaf_cost(item, overhead, cap);
  }

  /// The best of some trial lengths.
  [[nodiscard]] TreeTop best_top() const {
    const Cost bound = context_lower_bound(levels_.problem());
    TreeTop best;
    Cost best_end = -1;
    for (int step = 0; step <= 40; ++step) {
      Cost trial = bound;
      for (int i = 0; i < step; ++i) trial -= trial / 10;
      const Split split = split_within(trial);
      TreeTop top = place_tree_top(levels_, split.top);
      const Cost end = top.end_with(split.leaves);
      if (best_end >= 0 && end >= best_end) continue;
      best_end = end;
      best = std::move(top);
    }
    return best;
  }

  /// All items that the top does not have, by falling work.
  [[nodiscard]] std::vector<Item> leaves_of(const TreeTop& top) const {
    std::vector<bool> taken(order_.size());
    for (const OpenTask& task : top.tasks)
      for (const Item item : task.items) taken[static_cast<std::size_t>(item)] = true;
    std::vector<Item> leaves;
    for (const Item item : order_)
      if (!taken[static_cast<std::size_t>(item)]) leaves.push_back(item);
    return leaves;
  }

 private:
  [[nodiscard]] Cost leaf_cost(Item item, Cost overhead, std::int64_t cap) const {
    return levels_.work(item).work + overhead * levels_.aligned(item, 0) / cap;
  }

  [[nodiscard]] Split split_within(Cost trial) const {
    const Cost overhead = levels_.problem().communication.overhead;
    const std::int64_t cap = std::max<std::int64_t>(levels_.cap(0), 1);
    Split split{.top = {}, .leaves = leaf_cost_};
    for (const Item item : order_) {
      const int level = levels_.cheapest_within(item, trial);
      if (level == 0) continue;
      split.top.push_back({item, level});
      split.leaves -= leaf_cost(item, overhead, cap);
    }
    return split;
  }

  const ContextLevels& levels_;
  std::vector<Item> order_;
  Cost leaf_cost_ = 0;
};

}  // namespace

ContextSchedule schedule_context_tree(const ContextProblem& problem) {
  require_context_fits(problem);
  if (problem.items.empty()) return {};
  const ContextLevels levels(problem);
  const TreeSearch search(levels);
  TreeTop top = search.best_top();
  std::vector<OpenTask> leaves = place_tree_leaves(levels, search.leaves_of(top), top.heights);
  std::ranges::move(leaves, std::back_inserter(top.tasks));
  ContextSchedule schedule = finished_schedule(std::move(top.tasks), levels);
  schedule.end = *std::ranges::max_element(top.heights);
  return schedule;
}

}  // namespace evenkeel
