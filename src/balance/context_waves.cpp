#include "balance/context_waves.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "balance/checks.hpp"
#include "balance/context_task.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

/// Tasks of one trial: levels from the highest, into the first micro-batch of the level with room.
std::vector<OpenTask> pack_within(const ContextLevels& levels, Cost limit) {
  std::vector<std::tuple<int, Cost, Item>> order;
  for (Item item = 0; item < levels.num_items(); ++item) {
    const int level = levels.cheapest_within(item, limit);
    order.emplace_back(-level, -levels.time(item, level), item);
  }
  std::ranges::sort(order);
  std::vector<OpenTask> tasks;
  for (const auto& [level, time, item] : order) {
    const auto room = std::find_if(tasks.begin(), tasks.end(), [&](const OpenTask& task) {
      if (!task.has_room_for(item, levels)) return false;
      ContextWork work = task.work;
      work += levels.work(item);
      return levels.time(work, task.level) <= limit;
    });
    if (room != tasks.end()) {
      room->add(item, levels);
    } else {
      tasks.push_back({.level = -level});
      tasks.back().add(item, levels);
    }
  }
  return tasks;
}

/// By falling time into the first wave with a free block; returns the sum of what waves take.
Cost shelve(std::vector<OpenTask>& tasks, const ContextLevels& levels) {
  std::ranges::stable_sort(tasks, [](const OpenTask& left, const OpenTask& right) {
    return std::tuple(-left.level, -left.time) < std::tuple(-right.level, -right.time);
  });
  struct Wave {
    std::int64_t next = 0;
    Cost time = 0;
  };
  std::vector<Wave> waves;
  for (OpenTask& task : tasks) {
    std::size_t w = 0;
    while (w < waves.size() && waves[w].next + levels.size(task.level) > levels.problem().ranks) ++w;
    if (w == waves.size()) waves.push_back({});
    task.first = waves[w].next;
    task.wave = static_cast<std::int64_t>(w);
    waves[w].next += levels.size(task.level);
    waves[w].time = std::max(waves[w].time, task.time);
  }
  Cost sum = 0;
  for (const Wave& wave : waves) sum += wave.time;
  return sum;
}

}  // namespace

ContextSchedule schedule_context_waves(const ContextProblem& problem, std::int64_t multiple_of,
                                       std::int64_t min_waves) {
  require_context_fits(problem);
  if (multiple_of < 1) throw InputError("multiple_of", std::to_string(multiple_of) + ", below 1");
  if (min_waves < 0) throw InputError("min_waves", std::to_string(min_waves) + ", below 0");
  ContextSchedule schedule;
  if (!problem.items.empty()) {
    const ContextLevels levels(problem);
    std::vector<OpenTask> best;
    Cost best_end = -1;
    Cost trial = context_lower_bound(problem);
    for (int step = 0; step <= 40; ++step, trial -= trial / 10) {
      std::vector<OpenTask> tasks = pack_within(levels, trial);
      const Cost end = shelve(tasks, levels);
      if (best_end >= 0 && end >= best_end) continue;
      best_end = end;
      best = std::move(tasks);
    }
    std::ranges::stable_sort(best, {}, &OpenTask::wave);
    schedule = finished_schedule(std::move(best), levels);
    schedule.end = best_end;
  }
  std::int64_t used = 0;
  for (const ContextTask& task : schedule.tasks) used = std::max(used, task.wave + 1);
  const std::int64_t wanted = std::max(used, min_waves);
  schedule.waves = balance_checks::ceil_div(wanted, multiple_of) * multiple_of;
  return schedule;
}

}  // namespace evenkeel
