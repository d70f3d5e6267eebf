#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/levels.hpp"
#include "balance/partition/few_items.hpp"

namespace evenkeel::context {

/// A micro-batch that is being filled: ranks first .. first + size of its level - 1 run it.
struct OpenTask {
  std::int64_t first = 0;
  int level = 0;
  std::int64_t wave = -1;
  ContextWork work{};
  std::int64_t used = 0;   ///< aligned tokens
  std::int64_t count = 0;  ///< samples
  Cost time = 0;
  FewItems items{};

  [[nodiscard]] bool has_room_for(Item item, const Levels& levels) const {
    return has_room_for(levels.aligned(item, level), levels.problem().count_of(item), levels);
  }
  /// For an item of so many tokens, aligned as on this level, and samples.
  [[nodiscard]] bool has_room_for(std::int64_t tokens, std::int64_t samples, const Levels& levels) const {
    return tokens <= levels.cap(level) - used && samples <= levels.problem().limits.max_items - count;
  }
  void add(Item item, const Levels& levels) {
    add(item, levels.aligned(item, level), levels.problem().count_of(item), levels);
  }
  /// An item of so many tokens, aligned as on this level, and samples.
  void add(Item item, std::int64_t tokens, std::int64_t samples, const Levels& levels) {
    work += levels.work(item);
    used += tokens;
    count += samples;
    time = levels.time_at(work, level, first);
    items.push_back(item);
  }
};

/// Tasks in their order, with the items of each ascending. Leaves out those without items.
[[nodiscard]] Schedule finished_schedule(std::vector<OpenTask> tasks, const Levels& levels);

}  // namespace evenkeel::context
