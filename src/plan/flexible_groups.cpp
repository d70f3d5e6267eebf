#include "plan/flexible_groups.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "balance/context_schedule.hpp"
#include "balance/context_tree.hpp"
#include "balance/context_waves.hpp"
#include "evenkeel/base/assertions.hpp"
#include "plan/micro_batches.hpp"
#include "plan/mini_batches.hpp"
#include "plan/picked_units.hpp"

namespace evenkeel {
namespace {

/// The units of a mini-batch as items that groups run.
class FlexibleItems {
 public:
  FlexibleItems(const PlanSettings& settings, const PackUnits& units, IdView<UnitId> chosen) {
    for (const UnitId at : chosen) add(units[at], settings.balance.cost.linear);
    for (int size = 0; size <= settings.largest_group(); ++size)
      alignments_.push_back(settings.alignment(std::max(1, size)));
    problem_.items = work_;
    problem_.lengths = lengths_;
    if (units.shared()) {
      problem_.counts = counts_;
      problem_.offsets = offsets_;
    }
    problem_.alignments = alignments_;
    problem_.ranks = settings.dp;
    problem_.max_size = settings.largest_group();
    problem_.sizes = settings.flexible->sizes;
    problem_.limits = settings.micro_batch.limits();
    problem_.communication = settings.communication_cost();
    problem_.speeds = settings.balance.speeds;
    if (settings.balance.measured) keep_countable(problem_.communication);
  }
  FlexibleItems(const FlexibleItems&) = delete;
  FlexibleItems& operator=(const FlexibleItems&) = delete;

  [[nodiscard]] const ContextProblem& problem() const noexcept { return problem_; }
  /// What a micro-batch of these items takes on its group.
  [[nodiscard]] Cost time_of(std::span<const Item> items, const ContextTask& task) const {
    ContextWork sum;
    for (const Item item : items) sum += work_[static_cast<std::size_t>(item)];
    return problem_.time_of(sum, task.first, task.size);
  }
  [[nodiscard]] std::int64_t aligned_tokens(std::span<const Item> items, std::int64_t size) const {
    std::int64_t tokens = 0;
    for (const Item item : items) tokens += problem_.aligned_size(item, size);
    return tokens;
  }

 private:
  // What was measured may be anything. Its sums stay within 64 bits, so that it is no reason to refuse a
  // step.
  void keep_countable(CommunicationCost& cost) const {
    Cost most = Cost{1} << 60;
    if (!problem_.speeds.empty()) {
      const auto [slowest, fastest] = std::ranges::minmax(problem_.speeds);
      most /= fastest / slowest + (fastest % slowest != 0 ? 1 : 0);
    }
    std::int64_t rows = 1;
    for (const ContextWork& work : work_) rows += work.rows;
    const Cost most_of_a_hop = most / problem_.max_size / rows;
    cost.inside_node = std::min(cost.inside_node, most_of_a_hop);
    cost.between_nodes = std::min(cost.between_nodes, most_of_a_hop);
    cost.overhead = std::min(cost.overhead, most / problem_.max_size / (std::ssize(work_) + 1));
  }
  void add(const PackUnit& unit, Cost linear) {
    work_.push_back({unit.rows, unit.cost, unit.cost - linear * unit.rows});
    counts_.push_back(std::ssize(unit.entries));
    if (unit.tree == nullptr) {
      lengths_.push_back(unit.rows);
    } else {
      for (const TreeSegment& segment : unit.tree->segments()) lengths_.push_back(segment.rows.size());
    }
    offsets_.push_back(std::ssize(lengths_));
  }

  std::vector<ContextWork> work_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::int64_t> alignments_;
  ContextProblem problem_;
};

ContextGroup group_of(const ContextTask& task) {
  return {DataPlace{static_cast<int>(task.first)}, static_cast<int>(task.size)};
}

/// Larger groups first, as they run; then from the first place on.
struct RunsBefore {
  bool operator()(const ContextGroup& left, const ContextGroup& right) const noexcept {
    return std::tuple(-left.size, left.first) < std::tuple(-right.size, right.first);
  }
};

/// A mini-batch scheduled: its micro-batches with their groups, in the order to run them in.
struct ScheduledMiniBatch {
  std::vector<MicroBatchPlan> micro_batches;
  std::vector<std::int64_t> waves;         // of each, where ranks meet
  std::vector<std::vector<UnitId>> units;  // of each
  std::int64_t num_waves = 0;
  std::int64_t count_lower_bound = 0;
};

/// Where each wave runs: the settings' order of one stand-in a wave that takes as long.
std::vector<std::int64_t> wave_order(const ContextSchedule& schedule,
                                     std::span<const MicroBatchPlan> micro_batches,
                                     const PlanSettings& settings) {
  std::vector<MicroBatchPlan> stand_ins(static_cast<std::size_t>(schedule.waves));
  for (std::int64_t w = 0; w < schedule.waves; ++w)
    stand_ins[static_cast<std::size_t>(w)].entries = {EntryId{schedule.waves - 1 - w}};
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    Cost& slowest = stand_ins[static_cast<std::size_t>(schedule.tasks[t].wave)].cost;
    slowest = std::max(slowest, micro_batches[t].cost);
  }
  order_micro_batches(stand_ins, settings);
  std::vector<std::int64_t> position(stand_ins.size());
  for (std::size_t at = 0; at < stand_ins.size(); ++at) {
    const std::int64_t wave = schedule.waves - 1 - stand_ins[at].entries.front().value();
    position[static_cast<std::size_t>(wave)] = static_cast<std::int64_t>(at);
  }
  return position;
}

ScheduledMiniBatch schedule_mini_batch(const StepProblem& problem, const PackUnits& units,
                                       IdView<UnitId> mini_batch) {
  const PlanSettings& settings = problem.settings;
  const FlexibleItems items(settings, units, mini_batch);
  const ContextSchedule schedule = settings.is_context_tree()
                                       ? schedule_context_tree(items.problem())
                                       : schedule_context_waves(items.problem(), settings.count_multiple(),
                                                                settings.micro_batch.min_count);
  ScheduledMiniBatch scheduled;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const ContextTask& task = schedule.tasks[t];
    const std::span<const Item> chosen = schedule.items[static_cast<std::int64_t>(t)];
    scheduled.units.push_back(picked(mini_batch, chosen));
    MicroBatchPlan& m = scheduled.micro_batches.emplace_back(micro_batch_of(units, scheduled.units.back()));
    m.context = group_of(task);
    m.aligned_tokens = items.aligned_tokens(chosen, task.size);
    m.cost = items.time_of(chosen, task);
  }
  if (!settings.is_context_tree()) {
    scheduled.num_waves = schedule.waves;
    const std::vector<std::int64_t> position = wave_order(schedule, scheduled.micro_batches, settings);
    for (const ContextTask& task : schedule.tasks)
      scheduled.waves.push_back(position[static_cast<std::size_t>(task.wave)]);
  }
  std::int64_t rows = 0;
  for (const ContextWork& work : items.problem().items) rows += work.rows;
  const std::int64_t whole = settings.micro_batch.max_tokens * settings.dp;
  scheduled.count_lower_bound = rows / whole + (rows % whole != 0 ? 1 : 0);
  return scheduled;
}

/// The micro-batches of each DP rank, in the order to run them in.
JointMicroBatches joint_micro_batches(ScheduledMiniBatch scheduled, const PlanSettings& settings) {
  JointMicroBatches joint;
  joint.of_ranks.resize(static_cast<std::size_t>(settings.dp));
  for (int r = 0; scheduled.num_waves > 0 && r < settings.dp; ++r) {
    MicroBatchPlan idle;
    idle.context = settings.context_of(DpRank{r});
    joint.of_ranks[static_cast<std::size_t>(r)].assign(static_cast<std::size_t>(scheduled.num_waves), idle);
  }
  for (std::size_t t = 0; t < scheduled.micro_batches.size(); ++t) {
    const MicroBatchPlan& m = scheduled.micro_batches[t];
    for (int member = 0; member < m.context.size; ++member) {
      std::vector<MicroBatchPlan>& of_rank =
          joint.of_ranks[m.context.first.index() + static_cast<std::size_t>(member)];
      if (scheduled.waves.empty()) {
        of_rank.push_back(m);
      } else {
        of_rank[static_cast<std::size_t>(scheduled.waves[t])] = m;
      }
    }
  }
  joint.count.lower_bound = scheduled.count_lower_bound;
  for (const auto& of_rank : joint.of_ranks)
    joint.count.needed = std::max(joint.count.needed, std::ssize(of_rank));
  return joint;
}

using UnitsOfGroups = std::map<ContextGroup, std::vector<UnitId>, RunsBefore>;

UnitsOfGroups units_of_groups(const ScheduledMiniBatch& scheduled) {
  UnitsOfGroups units;
  for (std::size_t t = 0; t < scheduled.micro_batches.size(); ++t) {
    std::vector<UnitId>& of_group = units[scheduled.micro_batches[t].context];
    of_group.insert(of_group.end(), scheduled.units[t].begin(), scheduled.units[t].end());
  }
  for (auto& [group, of_group] : units) std::ranges::sort(of_group);
  return units;
}

}  // namespace

void assign_flexible(const StepProblem& problem, StepAssignment& assignment) {
  EVENKEEL_PRECONDITION(cheap, problem.settings.flexible.has_value());
  const IdGroups<UnitId> cut = cut_into_mini_batches(problem, assignment.units);
  std::vector<UnitsOfGroups> units;
  UnitsOfGroups all;
  for (std::int64_t m = 0; m < cut.size(); ++m) {
    ScheduledMiniBatch scheduled = schedule_mini_batch(problem, assignment.units, cut[m]);
    for (const auto& entry : units.emplace_back(units_of_groups(scheduled))) all.try_emplace(entry.first);
    assignment.mini_batches.emplace_back().joint =
        joint_micro_batches(std::move(scheduled), problem.settings);
  }
  for (const auto& entry : all) assignment.groups.push_back(entry.first);
  for (std::size_t m = 0; m < units.size(); ++m) {
    std::vector<std::vector<UnitId>> of_groups;
    for (const ContextGroup& group : assignment.groups) of_groups.push_back(std::move(units[m][group]));
    assignment.mini_batches[m].units = IdGroups<UnitId>(of_groups);
  }
}

Cost end_of(const StepPlan& plan, bool meets) {
  // Of each mini-batch what each rank takes, or of each wave its longest.
  std::vector<std::vector<Cost>> longest(plan.counts.size());
  for (const DpRankPlan& rank : plan.ranks) {
    std::vector<std::size_t> next(longest.size());
    std::vector<Cost> own(longest.size());
    for (const MicroBatchPlan& m : rank.micro_batches) {
      std::vector<Cost>& parts = longest[m.mini_batch.index()];
      const std::size_t at = meets ? next[m.mini_batch.index()]++ : 0;
      if (parts.size() <= at) parts.resize(at + 1);
      own[m.mini_batch.index()] += m.cost;
      parts[at] = std::max(parts[at], meets ? m.cost : own[m.mini_batch.index()]);
    }
  }
  Cost end = 0;
  for (const std::vector<Cost>& parts : longest) end = std::accumulate(parts.begin(), parts.end(), end);
  return end;
}

Cost flexible_lower_bound(const StepProblem& problem) {
  const PackUnits units = make_units(problem);
  const IdGroups<UnitId> cut = cut_into_mini_batches(problem, units);
  Cost bound = 0;
  for (std::int64_t m = 0; m < cut.size(); ++m) {
    const FlexibleItems items(problem.settings, units, cut[m]);
    bound += problem.settings.is_context_tree() ? context_lower_bound(items.problem())
                                                : context_waves_lower_bound(items.problem());
  }
  return bound;
}

}  // namespace evenkeel
