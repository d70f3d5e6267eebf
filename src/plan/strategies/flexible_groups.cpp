#include "plan/strategies/flexible_groups.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "balance/context/tree/tree.hpp"
#include "balance/context/waves/waves.hpp"
#include "balance/groups/group_balance.hpp"
#include "balance/partition/item_order.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "plan/assign/dp_assignment.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/settings/checks.hpp"
#include "plan/strategies/micro_batcher.hpp"

namespace evenkeel {
namespace {

std::vector<UnitId> sort_by_descending_cost(const PackUnits& units, IdView<UnitId> chosen) {
  std::vector<Cost> costs;
  costs.reserve(chosen.size());
  for (const UnitId at : chosen) costs.push_back(units.costs()[at.index()]);
  std::vector<UnitId> order;
  order.reserve(chosen.size());
  for (const CostedItem& unit : descending_items_smaller_first(costs)) order.push_back(chosen[unit.item]);
  return order;
}

ContextGroup context_group_of(const context::Task& task) {
  return {DataPlace{static_cast<int>(task.first)}, static_cast<int>(task.size)};
}

/// Returns the position of each wave (context::Schedule) in the execution order. Orders one placeholder
/// micro-batch per wave as configured; its cost is the time of the wave's slowest task.
std::vector<std::int64_t> wave_order(const context::Schedule& schedule, const PlanSettings& settings) {
  std::vector<MicroBatchPlan> stand_ins(static_cast<std::size_t>(schedule.waves));
  for (std::int64_t w = 0; w < schedule.waves; ++w)
    stand_ins[static_cast<std::size_t>(w)].entries = {EntryId{schedule.waves - 1 - w}};
  for (const context::Task& task : schedule.tasks) {
    Cost& slowest = stand_ins[static_cast<std::size_t>(task.wave)].cost;
    slowest = std::max(slowest, task.time);
  }
  order_micro_batches(stand_ins, settings, 1);
  std::vector<std::int64_t> position(stand_ins.size());
  for (std::size_t at = 0; at < stand_ins.size(); ++at) {
    const std::int64_t wave = schedule.waves - 1 - stand_ins[at].entries.front().value();
    position[static_cast<std::size_t>(wave)] = static_cast<std::int64_t>(at);
  }
  return position;
}

/// For each unit of a step: the index of its micro-batch within its mini-batch.
using MicroBatchOfUnit = std::vector<std::int64_t>;

/// Adds the tasks of a schedule as micro-batches: task i becomes micro-batch i.
void add_tasks(const context::Schedule& schedule, const FlexibleItems& items, JointMicroBatches& joint,
               MicroBatchOfUnit& micro_batch_of_unit) {
  joint.reserve(schedule.tasks.size(), static_cast<std::size_t>(schedule.items.num_items()));
  std::vector<UnitId> of_task;
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    of_task.clear();
    for (const Item item : schedule.items[static_cast<std::int64_t>(t)]) {
      const UnitId unit = of_task.emplace_back(items.unit(item));
      micro_batch_of_unit[unit.index()] = static_cast<std::int64_t>(t);
    }
    std::ranges::sort(of_task);
    const context::Task& task = schedule.tasks[t];
    joint.add(of_task, {.tokens = task.tokens,
                        .aligned_tokens = task.aligned_tokens,
                        .cost = task.time,
                        .context = context_group_of(task)});
  }
}

/// Returns the maximum number of micro-batches over the DP ranks, and a lower bound on it.
GroupCount max_micro_batches_per_rank(const JointMicroBatches& joint, const context::Problem& problem,
                                      const PlanSettings& settings) {
  GroupCount count;
  for (int r = 0; r < settings.dp; ++r)
    count.needed = std::max(count.needed, std::ssize(joint.micro_batches_of(DpRank{r})));
  std::int64_t rows = 0;
  for (const ContextWork& work : problem.items) rows += work.rows;
  const std::int64_t whole = settings.micro_batch.max_tokens * settings.dp;
  count.lower_bound = rows / whole + (rows % whole != 0 ? 1 : 0);
  return count;
}

/// Numbers the groups that run any units. Larger groups come first; groups of equal size are in the order of
/// their first places.
class GroupNumbers {
 public:
  explicit GroupNumbers(std::int64_t ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  void add(const ContextGroup& group) {
    std::vector<std::int32_t>& of_size = numbers_[group.size];
    of_size.resize(ranks_, none);
    of_size[group.first.index()] = unnumbered;
  }
  /// Numbers the added groups, and returns them in that order.
  [[nodiscard]] std::vector<ContextGroup> assign_numbers() {
    std::vector<ContextGroup> groups;
    for (auto& [size, of_size] : numbers_) {
      for (std::size_t first = 0; first < of_size.size(); ++first) {
        if (of_size[first] == none) continue;
        of_size[first] = static_cast<std::int32_t>(groups.size());
        groups.push_back({DataPlace{static_cast<int>(first)}, size});
      }
    }
    return groups;
  }
  [[nodiscard]] std::int32_t operator[](const ContextGroup& group) const {
    return numbers_.at(group.size)[group.first.index()];
  }

 private:
  static constexpr std::int32_t none = -1;
  static constexpr std::int32_t unnumbered = 0;

  std::size_t ranks_;
  // The number of each group, by size, then by first place.
  std::map<int, std::vector<std::int32_t>, std::greater<>> numbers_;
};

/// Adds the groups of all non-empty micro-batches to `numbers`.
void add_groups_of(const JointMicroBatches& joint, GroupNumbers& numbers) {
  for (std::int64_t m = 0; m < joint.size(); ++m)
    if (!joint.units_of(m).empty()) numbers.add(joint.figures_of(m).context);
}

/// Returns the group number of each micro-batch; -1 for empty micro-batches.
std::vector<std::int32_t> group_numbers_of(const JointMicroBatches& joint, const GroupNumbers& numbers) {
  std::vector<std::int32_t> groups;
  groups.reserve(static_cast<std::size_t>(joint.size()));
  for (std::int64_t m = 0; m < joint.size(); ++m)
    groups.push_back(joint.units_of(m).empty() ? -1 : numbers[joint.figures_of(m).context]);
  return groups;
}

[[noreturn]] void throw_above_largest_group(const SampleShape& sample, const PlanSettings& settings) {
  const int size = settings.largest_group();
  throw LimitError(sample.id,
                   "has " + format_plain_count(sample.length(), "token") + ", " +
                       std::to_string(align_up(sample.length(), settings.alignment(size))) +
                       " after alignment, but the largest group, of " + format_plain_count(size, "rank") +
                       ", has a cap of " + format_plain_count(settings.cap(size), "token"),
                   "Raise micro_batch.max_tokens_per_rank, mesh.max_cp or the number of ranks, or shorten or "
                   "drop the sample");
}

/// The MicroBatcher of ContextTreeStrategy. Returns the micro-batches that a DP rank runs, each with its own
/// group, and does not append empty ones.
class TreeMicroBatcher final : public JointMicroBatcher {
 public:
  using JointMicroBatcher::JointMicroBatcher;

 private:
  void complete(std::vector<MicroBatchPlan>& /*micro_batches*/, MiniBatchShare /*share*/,
                std::int64_t /*count*/) const override {}
};

/// The MicroBatcher of ContextWavesStrategy. Returns one micro-batch per wave, each with its own group;
/// appended empty micro-batches keep the default group.
class WavesMicroBatcher final : public JointMicroBatcher {
 public:
  using JointMicroBatcher::JointMicroBatcher;

 private:
  void complete(std::vector<MicroBatchPlan>& micro_batches, MiniBatchShare /*share*/,
                std::int64_t count) const override {
    micro_batches.resize(static_cast<std::size_t>(count));
  }
};

}  // namespace

FlexibleItems::FlexibleItems(const PlanSettings& settings, const PackUnits& units, IdView<UnitId> chosen)
    : order_(sort_by_descending_cost(units, chosen)) {
  work_.reserve(order_.size());
  lengths_.reserve(order_.size());
  for (const UnitId unit : order_) add(units, unit, settings.balance);
  for (int size = 0; size <= settings.largest_group(); ++size)
    alignments_.push_back(settings.alignment(std::max(1, size)));
  problem_.items = work_;
  problem_.lengths = lengths_;
  if (!units.items().counts.empty()) problem_.counts = counts_;
  if (units.has_shared_prefixes()) problem_.offsets = offsets_;
  problem_.alignments = alignments_;
  problem_.ranks = settings.dp;
  problem_.max_size = settings.largest_group();
  problem_.limits = units.limits();
  problem_.communication = settings.communication_cost();
  problem_.speeds = settings.balance.speeds;
  if (settings.balance.measured) clamp_costs(problem_.communication);
}

// Clamps measured communication costs, which may be arbitrarily large, so that their sums fit in 64 bits.
// Otherwise, planning could reject a step because of them.
void FlexibleItems::clamp_costs(CommunicationCost& cost) const {
  Cost most = Cost{1} << 60;
  if (!problem_.speeds.empty()) {
    const auto [slowest, fastest] = std::ranges::minmax(problem_.speeds);
    most /= fastest / slowest + (fastest % slowest != 0 ? 1 : 0);
  }
  std::int64_t rows = 1;
  for (const ContextWork& work : work_) rows += work.rows;
  const Cost max_of_a_hop = most / problem_.max_size / rows;
  cost.inside_node = std::min(cost.inside_node, max_of_a_hop);
  cost.between_nodes = std::min(cost.between_nodes, max_of_a_hop);
  cost.overhead = std::min(cost.overhead, most / problem_.max_size / (std::ssize(work_) + 1));
}

void FlexibleItems::add(const PackUnits& units, UnitId at, const BalanceSettings& balance) {
  const std::int64_t rows = units.rows()[at.index()];
  const Cost cost = units.costs()[at.index()];
  // With a cost field, the cost of attention is not known separately.
  work_.push_back({rows, cost, balance.cost_field ? 0 : cost - balance.cost.linear * rows});
  counts_.push_back(units.items().count_of(at.value()));
  if (!units.has_shared_prefixes()) {  // each item is one sequence, so offsets are not needed
    lengths_.push_back(rows);
    return;
  }
  const PackUnit unit = units[at];
  if (unit.tree == nullptr) {
    lengths_.push_back(unit.rows);
  } else {
    for (const TreeSegment& segment : unit.tree->segments()) lengths_.push_back(segment.rows.size());
  }
  offsets_.push_back(std::ssize(lengths_));
}

void FlexibleStrategy::require_valid(const PlanSettings& settings) const {
  plan_checks::require_at_least(1, settings.largest_group(), "mesh.max_cp");
  if (settings.largest_group() > settings.dp)
    throw ConfigError("mesh.max_cp",
                      "is " + std::to_string(settings.largest_group()) + "; it must be at most " +
                          std::to_string(settings.dp) + ", the number of DP ranks",
                      "Lower it, or use more ranks");
  if (settings.cp.size != 1)
    throw ConfigError(
        "mesh.cp",
        "is flexible, so the mesh must have cp 1, but it has cp " + std::to_string(settings.cp.size),
        "Create the mesh with cp 1");
}

void FlexibleStrategy::require_samples_fit(const LengthTable& table, const PlanSettings& settings) const {
  const LengthEntry* above = find_first_above_cap(table, settings);
  if (above != nullptr) throw_above_largest_group(above->shape, settings);
}

void FlexibleStrategy::assign(const StepProblem& problem, StepAssignment& assignment) const {
  const PlanSettings& settings = problem.settings;
  const PackUnits& units = assignment.units;
  const IdGroups<UnitId> cut = cut_into_mini_batches(problem, units);
  MicroBatchOfUnit micro_batch_of_unit(static_cast<std::size_t>(units.size()));
  GroupNumbers numbers(settings.dp);
  for (std::int64_t m = 0; m < cut.size(); ++m) {
    const FlexibleItems items(settings, units, cut[m]);
    const context::Schedule scheduled = schedule(items.problem(), settings);
    JointMicroBatches& joint = assignment.mini_batches.emplace_back().joint;
    joint = JointMicroBatches(settings.dp);
    add_tasks(scheduled, items, joint, micro_batch_of_unit);
    assign_execution_order(scheduled, settings, joint);
    joint.count = max_micro_batches_per_rank(joint, items.problem(), settings);
    add_groups_of(joint, numbers);
  }
  assignment.groups = numbers.assign_numbers();
  for (std::int64_t m = 0; m < cut.size(); ++m) {
    MiniBatchAssignment& mini_batch = assignment.mini_batches[static_cast<std::size_t>(m)];
    const std::vector<std::int32_t> of_micro_batches = group_numbers_of(mini_batch.joint, numbers);
    std::vector<std::int32_t> of_units;
    of_units.reserve(cut[m].size());
    for (const UnitId unit : cut[m])
      of_units.push_back(of_micro_batches[static_cast<std::size_t>(micro_batch_of_unit[unit.index()])]);
    mini_batch.units =
        IdGroups<UnitId>(partition_by_group(cut.items()[m], of_units, std::ssize(assignment.groups)));
  }
}

context::Schedule ContextTreeStrategy::schedule(const context::Problem& problem,
                                                const PlanSettings& /*settings*/) const {
  return context::schedule_tree(problem);
}

// Each rank runs the tasks in which it takes part, in the order of the tasks. A rank without tasks gets an
// empty micro-batch, since each rank needs a last micro-batch after which it reduces its gradients.
void ContextTreeStrategy::assign_execution_order(const context::Schedule& schedule,
                                                 const PlanSettings& settings,
                                                 JointMicroBatches& joint) const {
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const context::Task& task = schedule.tasks[t];
    for (std::int64_t rank = task.first; rank < task.first + task.size; ++rank)
      joint.append_to_rank(DpRank{static_cast<int>(rank)}, static_cast<std::int64_t>(t));
  }
  for (int r = 0; r < settings.dp; ++r) {
    const DpRank rank{r};
    if (joint.micro_batches_of(rank).empty())
      joint.append_to_rank(rank, joint.add({}, {.context = settings.context_of(rank)}));
  }
}

std::unique_ptr<const MicroBatcher> ContextTreeStrategy::make_micro_batcher(
    const StepProblem& problem, const StepAssignment& assignment) const {
  return std::make_unique<TreeMicroBatcher>(problem, assignment);
}

context::Schedule ContextWavesStrategy::schedule(const context::Problem& problem,
                                                 const PlanSettings& settings) const {
  return context::schedule_waves(problem, settings.count_multiple(), settings.micro_batch.min_count);
}

// Each rank runs one micro-batch per wave: its task, or an empty micro-batch if it has no task in that wave.
void ContextWavesStrategy::assign_execution_order(const context::Schedule& schedule,
                                                  const PlanSettings& settings,
                                                  JointMicroBatches& joint) const {
  std::vector<std::vector<std::int64_t>> of_ranks;
  for (int r = 0; r < settings.dp; ++r) {
    const std::int64_t idle = joint.add({}, {.context = settings.context_of(DpRank{r})});
    of_ranks.emplace_back(static_cast<std::size_t>(schedule.waves), idle);
  }
  const std::vector<std::int64_t> position = wave_order(schedule, settings);
  for (std::size_t t = 0; t < schedule.tasks.size(); ++t) {
    const context::Task& task = schedule.tasks[t];
    const auto at = static_cast<std::size_t>(position[static_cast<std::size_t>(task.wave)]);
    for (std::int64_t rank = task.first; rank < task.first + task.size; ++rank)
      of_ranks[static_cast<std::size_t>(rank)][at] = static_cast<std::int64_t>(t);
  }
  for (int r = 0; r < settings.dp; ++r)
    joint.set_run_order(DpRank{r}, std::move(of_ranks[static_cast<std::size_t>(r)]));
}

std::unique_ptr<const MicroBatcher> ContextWavesStrategy::make_micro_batcher(
    const StepProblem& problem, const StepAssignment& assignment) const {
  return std::make_unique<WavesMicroBatcher>(problem, assignment);
}

Cost end_time_of(const StepPlan& plan, bool meets) {
  // For each mini-batch: the longest total time of any rank or, if ranks synchronize at every micro-batch,
  // the time of the longest micro-batch of each wave.
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

Cost flexible_lower_bound(const StepProblem& given) {
  PlanSettings settings = given.settings;
  // Row caps can only make a step end later, so a bound that ignores them is still a lower bound.
  settings.micro_batch.max_rows.clear();
  const StepProblem problem{given.table, settings, given.step, given.trees};
  const PackUnits units = make_units(problem);
  const IdGroups<UnitId> cut = cut_into_mini_batches(problem, units);
  Cost bound = 0;
  for (std::int64_t m = 0; m < cut.size(); ++m)
    bound += context::lower_bound(FlexibleItems(settings, units, cut[m]).problem());
  return bound;
}

}  // namespace evenkeel
