#include "balance/context/context_problems.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "balance/random_costs.hpp"

namespace evenkeel::context {

Cost time_of(const Problem& problem, const ContextWork& work, std::int64_t first, std::int64_t size) {
  const Cost time = time_on(work, size, problem.communication);
  if (problem.speeds.empty()) return time;
  const auto group = problem.speeds.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(size));
  const std::int64_t slowest = std::ranges::min(group);
  return (time * std::ranges::max(problem.speeds) + slowest - 1) / slowest;
}

namespace {

struct TaskSum {
  ContextWork work;
  std::int64_t used = 0;
  std::int64_t count = 0;
};

template <typename Items>
TaskSum sum_of(const Problem& problem, const Items& items, std::int64_t size) {
  TaskSum sum;
  for (const Item item : items) {
    sum.work += problem.items[static_cast<std::size_t>(item)];
    sum.used += problem.aligned_size(item, size);
    sum.count += problem.count_of(item);
  }
  return sum;
}

bool is_within(const Problem& problem, const TaskSum& sum, std::int64_t size) {
  return sum.used <= size * problem.limits.max_size && sum.count <= problem.limits.max_items;
}

std::string fault_of_task(const Problem& problem, const Task& task, std::span<const Item> items) {
  const bool is_power = (task.size & (task.size - 1)) == 0;
  if (task.size < 1 || task.size > problem.max_size) return "a group is too large";
  if (!is_power || task.first % task.size != 0) return "a block does not line up";
  if (task.first < 0 || task.first + task.size > problem.ranks) return "a block lies outside";
  if (items.empty() || !std::ranges::is_sorted(items)) return "items do not ascend";
  const TaskSum sum = sum_of(problem, items, task.size);
  if (!is_within(problem, sum, task.size)) return "a micro-batch is too large";
  if (task.tokens != sum.work.rows || task.aligned_tokens != sum.used) return "tokens are miscounted";
  if (task.time != time_of(problem, sum.work, task.first, task.size)) return "a time is wrong";
  return "";
}

/// Returns when the last rank ends, if each rank runs its tasks in order and each task starts as soon as all
/// of its members are free.
Cost simulated_end(const Problem& problem, const Schedule& schedule) {
  std::vector<Cost> free(static_cast<std::size_t>(problem.ranks), 0);
  Cost last = 0;
  for (std::int64_t t = 0; t < schedule.items.size(); ++t) {
    const Task& task = schedule.tasks[static_cast<std::size_t>(t)];
    const auto members =
        std::span(free).subspan(static_cast<std::size_t>(task.first), static_cast<std::size_t>(task.size));
    const TaskSum sum = sum_of(problem, schedule.items[t], task.size);
    const Cost end = std::ranges::max(members) + time_of(problem, sum.work, task.first, task.size);
    std::ranges::fill(members, end);
    last = std::max(last, end);
  }
  return last;
}

std::string fault_of_waves(const Problem& problem, const Schedule& schedule) {
  std::map<std::int64_t, Cost> times;
  std::map<std::int64_t, std::vector<bool>> busy;
  std::int64_t wave = 0;
  for (std::int64_t t = 0; t < schedule.items.size(); ++t) {
    const Task& task = schedule.tasks[static_cast<std::size_t>(t)];
    if (task.wave < wave || task.wave >= schedule.waves) return "waves do not ascend";
    wave = task.wave;
    auto& ranks = busy[wave];
    ranks.resize(static_cast<std::size_t>(problem.ranks));
    for (std::int64_t r = task.first; r < task.first + task.size; ++r) {
      if (ranks[static_cast<std::size_t>(r)]) return "two micro-batches of a rank in one wave";
      ranks[static_cast<std::size_t>(r)] = true;
    }
    const TaskSum sum = sum_of(problem, schedule.items[t], task.size);
    times[wave] = std::max(times[wave], time_of(problem, sum.work, task.first, task.size));
  }
  Cost end = 0;
  for (const auto& [number, time] : times) end += time;
  return end == schedule.end ? "" : "the end is not the sum of what waves take";
}

constexpr Cost never = std::numeric_limits<Cost>::max() / 4;
/// One entry per set of items.
using BySet = std::vector<Cost>;

template <typename Combine>
BySet best_splits(const BySet& left, const BySet& right, Combine combine) {
  BySet best(left.size(), never);
  for (std::size_t all = 0; all < best.size(); ++all) {
    for (std::size_t part = all;; part = (part - 1) & all) {
      best[all] = std::min(best[all], combine(left[part], right[all & ~part]));
      if (part == 0) break;
    }
  }
  return best;
}

Cost larger(Cost left, Cost right) {
  return std::max(left, right);
}
Cost both(Cost left, Cost right) {
  return std::min(never, left + right);
}

/// Ranks first .. first + size - 1.
struct Block {
  std::int64_t first;
  std::int64_t size;
};

/// Returns the time of one micro-batch; 0 if the set is empty.
BySet single_tasks(const Problem& problem, Block block) {
  BySet times(std::size_t{1} << problem.items.size(), never);
  times[0] = 0;
  for (std::size_t set = 1; set < times.size(); ++set) {
    std::vector<Item> items;
    for (std::size_t i = 0; i < problem.items.size(); ++i)
      if ((set >> i & 1) != 0) items.push_back(static_cast<Item>(i));
    const TaskSum sum = sum_of(problem, items, block.size);
    if (is_within(problem, sum, block.size)) times[set] = time_of(problem, sum.work, block.first, block.size);
  }
  return times;
}

/// Returns the time of each set in any number of consecutive micro-batches.
BySet repeated(const BySet& once) {
  BySet best = once;
  for (std::size_t all = 1; all < best.size(); ++all)
    for (std::size_t part = (all - 1) & all; part != 0; part = (part - 1) & all)
      best[all] = std::min(best[all], both(once[part], best[all & ~part]));
  return best;
}

/// Returns the time over all ranks, in aligned blocks of the allowed sizes, starting from `block`, which may
/// use its children.
BySet over_ranks(const Problem& problem, const std::function<BySet(Block, const BySet*)>& block) {
  BySet best(std::size_t{1} << problem.items.size(), never);
  best[0] = 0;
  const std::function<BySet(Block)> whole = [&](Block all) {
    if (all.size == 1) return block(all, nullptr);
    const std::int64_t half = all.size / 2;
    const BySet halves = best_splits(whole({all.first, half}), whole({all.first + half, half}), larger);
    return all.size <= problem.max_size ? block(all, &halves) : halves;
  };
  std::int64_t first = 0;
  for (std::int64_t size = std::int64_t{1} << 6; size >= 1; size /= 2) {
    for (; problem.ranks - first >= size; first += size)
      best = best_splits(best, whole({first, size}), larger);
  }
  return best;
}

}  // namespace

std::string fault_of(const Problem& problem, const Schedule& schedule, bool waves) {
  if (!holds_every_item_once(schedule.items, problem.items.size())) return "not every item once";
  if (static_cast<std::int64_t>(schedule.tasks.size()) != schedule.items.size()) return "not as many tasks";
  for (std::int64_t t = 0; t < schedule.items.size(); ++t) {
    const Task& task = schedule.tasks[static_cast<std::size_t>(t)];
    if (std::string fault = fault_of_task(problem, task, schedule.items[t]); !fault.empty()) return fault;
    if (!waves && task.wave != -1) return "a wave where there are none";
    if (!waves && t > 0 && task.size > schedule.tasks[static_cast<std::size_t>(t - 1)].size)
      return "sizes do not fall";
  }
  if (schedule.end < lower_bound(problem)) return "it ends before the lower bound";
  if (waves) return fault_of_waves(problem, schedule);
  if (schedule.waves != 0) return "waves where there are none";
  return simulated_end(problem, schedule) == schedule.end ? "" : "it does not end when it says";
}

Cost least_tree_end(const Problem& problem) {
  return over_ranks(problem,
                    [&](Block block, const BySet* halves) {
                      const BySet own = repeated(single_tasks(problem, block));
                      return halves == nullptr ? own : best_splits(own, *halves, both);
                    })
      .back();
}

Cost least_waves_end(const Problem& problem) {
  const BySet wave = over_ranks(problem, [&](Block block, const BySet* halves) {
    BySet times = single_tasks(problem, block);
    for (std::size_t set = 0; halves != nullptr && set < times.size(); ++set)
      times[set] = std::min(times[set], (*halves)[set]);
    return times;
  });
  return repeated(wave).back();
}

}  // namespace evenkeel::context
