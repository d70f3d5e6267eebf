#include "balance/context/task.hpp"

#include <algorithm>
#include <utility>

namespace evenkeel::context {

Schedule make_schedule(std::vector<OpenTask> tasks, const Levels& levels) {
  Schedule schedule;
  std::vector<Item> items;
  std::vector<std::int64_t> offsets{0};
  items.reserve(static_cast<std::size_t>(levels.num_items()));
  for (OpenTask& task : tasks) {
    if (task.items.empty()) continue;
    std::ranges::sort(task.items);
    items.insert(items.end(), task.items.begin(), task.items.end());
    offsets.push_back(static_cast<std::int64_t>(items.size()));
    schedule.tasks.push_back(
        {task.first, levels.size(task.level), task.wave, task.work.rows, task.used, task.time});
  }
  schedule.items = Partition(std::move(items), std::move(offsets));
  return schedule;
}

}  // namespace evenkeel::context
