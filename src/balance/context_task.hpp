#pragma once

#include <cstdint>
#include <vector>

#include "balance/context_levels.hpp"

namespace evenkeel {

/// A micro-batch that is being filled: ranks first .. first + size of its level - 1 run it.
struct OpenTask {
  std::int64_t first = 0;
  int level = 0;
  std::int64_t wave = -1;
  ContextWork work{};
  std::int64_t used = 0;   ///< aligned tokens
  std::int64_t count = 0;  ///< samples
  Cost time = 0;
  std::vector<Item> items{};

  [[nodiscard]] bool has_room_for(Item item, const ContextLevels& levels) const {
    return levels.aligned(item, level) <= levels.cap(level) - used &&
           levels.problem().count_of(item) <= levels.problem().limits.max_items - count;
  }
  void add(Item item, const ContextLevels& levels) {
    work += levels.work(item);
    used += levels.aligned(item, level);
    count += levels.problem().count_of(item);
    time = levels.time_at(work, level, first);
    items.push_back(item);
  }
};

/// Tasks in their order, with the items of each ascending. Leaves out those without items.
[[nodiscard]] ContextSchedule finished_schedule(std::vector<OpenTask> tasks, const ContextLevels& levels);

}  // namespace evenkeel
