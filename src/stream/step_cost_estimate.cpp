#include "stream/step_cost_estimate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <numeric>

#include "balance/quality.hpp"
#include "base/narrow.hpp"
#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel::stream {
namespace {

/// Minimum time of a large unit, as a fraction of a rank's average time per step. Smaller units are assumed
/// to fit wherever a rank would otherwise be idle.
constexpr double large_part = 0.25;

/// Returns the time of a unit that runs alone on the largest group of ranks that it may use.
double time_of_unit(double work, double tokens, const PlanSettings& settings) {
  const ContextWork whole{static_cast<std::int64_t>(tokens), static_cast<Cost>(work), 0};
  CommunicationCost communication = settings.communication_cost();
  communication.overhead = 0;
  return static_cast<double>(time_on(whole, settings.largest_group() / settings.cp.size, communication));
}

/// Returns the work of a group whose samples share a prompt. The group runs as one unit, which is split only
/// if it exceeds the token cap.
GroupWork work_of_shared_prompt(const WaitingGroup& group, const PlanSettings& settings) {
  std::int64_t prompt = 0;
  std::vector<std::int64_t> suffixes;
  for (const WaitingSample& sample : group.samples) {
    prompt = std::max(prompt, sample.prompt);
    suffixes.push_back(sample.response);
  }
  GroupWork work;
  work.load = static_cast<double>(cost_of_group(settings.balance.cost, prompt, suffixes));
  work.tokens = static_cast<double>(std::accumulate(suffixes.begin(), suffixes.end(), prompt));
  const double cap = static_cast<double>(settings.cap(settings.largest_group()));
  const double pieces = std::max(1.0, std::ceil(work.tokens / cap));
  work.units.assign(static_cast<std::size_t>(pieces),
                    time_of_unit(work.load / pieces, work.tokens / pieces, settings));
  return work;
}

GroupWork work_of(const WaitingGroup& group, const PlanSettings& settings) {
  if (settings.sharing != PrefixSharing::none) return work_of_shared_prompt(group, settings);
  GroupWork work;
  for (const WaitingSample& sample : group.samples) {
    const std::int64_t length = sample.prompt + sample.response;
    const auto tokens = static_cast<double>(length);
    const auto load = static_cast<double>(settings.balance.cost(length));
    work.load += load;
    work.tokens += tokens;
    work.units.push_back(time_of_unit(load, tokens, settings));
  }
  return work;
}

/// Returns a lower bound on the time of the busiest DP rank under any assignment of the units, whose times
/// are in descending order, to `places` DP ranks. By the pigeonhole principle, at least one rank gets j or
/// more of the (j - 1) * places + 1 longest units, for every j. The time of this rank is therefore at least
/// the total time of the j shortest of these units.
double busiest_time_lower_bound(std::span<const double> units, std::size_t places) {
  double most = 0;
  for (std::size_t last = 0, j = 1; last < units.size(); last += places, ++j) {
    if (last + 1 < j) break;
    const auto begin = units.begin() + static_cast<std::ptrdiff_t>(last + 1 - j);
    most = std::max(most, std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(j), 0.0));
  }
  return most;
}

/// Returns a table for planning with the samples of these groups, numbered consecutively over the groups.
LengthTable table_of(std::span<const WaitingGroup> groups) {
  std::vector<LengthEntry> entries;
  for (const WaitingGroup& group : groups) {
    for (const WaitingSample& sample : group.samples) {
      const std::int64_t number = std::ssize(entries);
      LengthEntry& entry = entries.emplace_back();
      entry.shape = {SampleId{number}, group_of(group.uid, number), sample.prompt, sample.response};
      entry.owner_index = narrow<std::int32_t>(number, "samples");
    }
  }
  return LengthTable(std::move(entries));
}

}  // namespace

StepCostEstimate::StepCostEstimate(std::span<const WaitingGroup> groups, std::int64_t groups_of_step,
                                   const PlanSettings& settings)
    : equivalent_ranks_(settings.dp),
      dp_ranks_(static_cast<std::size_t>(settings.dp)),
      tokens_per_round_(static_cast<double>(settings.cap(settings.cp.size)) * settings.dp),
      overhead_(
          static_cast<double>(settings.balance.overhead.value_or(default_overhead(settings.balance.cost)))) {
  double fastest = 1;  // speed of the fastest rank relative to the slowest one
  if (const std::vector<std::int64_t>& speeds = settings.balance.speeds; !speeds.empty()) {
    const auto [least, most] = std::ranges::minmax(speeds);
    equivalent_ranks_ = std::accumulate(speeds.begin(), speeds.end(), 0.0) / static_cast<double>(least);
    fastest = static_cast<double>(most) / static_cast<double>(least);
  }
  for (const WaitingGroup& group : groups) {
    GroupWork& work = works_.emplace_back(work_of(group, settings));
    for (double& unit : work.units) work.longest = std::max(work.longest, unit /= fastest);
    mean_load_ += work.load;
    mean_tokens_ += work.tokens;
  }
  const double n = std::max(1.0, static_cast<double>(groups.size()));
  mean_load_ /= n;
  mean_tokens_ /= n;
  const double large = large_part * mean_load_ * static_cast<double>(groups_of_step) / equivalent_ranks_;
  for (GroupWork& work : works_) {
    std::erase_if(work.units, [&](double unit) { return unit < large; });
    std::ranges::sort(work.units, std::greater{});
  }
}

StepCostEstimate::Sums StepCostEstimate::sums_of(std::span<const std::size_t> groups,
                                                 std::int64_t unknown) const {
  Sums sums{mean_load_ * static_cast<double>(unknown), mean_tokens_ * static_cast<double>(unknown)};
  for (const std::size_t group : groups) {
    const GroupWork& work = works_[group];
    sums.load += work.load;
    sums.tokens += work.tokens;
    sums.units.insert(sums.units.end(), work.units.begin(), work.units.end());
  }
  std::ranges::sort(sums.units, std::greater{});
  sums.large_unit_time = busiest_time_lower_bound(sums.units, dp_ranks_);
  return sums;
}

StepCostEstimate::Sums StepCostEstimate::sums_after_swap(const Sums& sums, std::size_t out,
                                                         std::size_t in) const {
  const GroupWork& leaves = works_[out];
  const GroupWork& comes = works_[in];
  Sums other{sums.load - leaves.load + comes.load, sums.tokens - leaves.tokens + comes.tokens};
  if (leaves.units.empty() && comes.units.empty()) {
    other.units = sums.units;
    other.large_unit_time = sums.large_unit_time;
    return other;
  }
  std::vector<double> left;
  std::ranges::set_difference(sums.units, leaves.units, std::back_inserter(left), std::greater{});
  std::ranges::merge(left, comes.units, std::back_inserter(other.units), std::greater{});
  other.large_unit_time = busiest_time_lower_bound(other.units, dp_ranks_);
  return other;
}

StepCostEstimate::Time StepCostEstimate::time_of(const Sums& sums) const noexcept {
  const double even = sums.load / equivalent_ranks_;
  const double time = std::max(even, sums.large_unit_time);
  return {time + overhead_ * std::ceil(sums.tokens / tokens_per_round_), time - even};
}

double planned_time(std::span<const WaitingGroup> groups, const PlanSettings& settings) {
  const LengthTable table = table_of(groups);
  const StepPlan plan = plan_step({table, settings});
  const BalanceSettings& balance = settings.balance;
  Cost end = 0;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    end = std::max(end, settings.time_of(plan.ranks[r].cost(), static_cast<std::int64_t>(r)));
  const Cost overhead = balance.overhead.value_or(default_overhead(balance.cost));
  return static_cast<double>(end) + static_cast<double>(plan.num_micro_batches() * overhead);
}

}  // namespace evenkeel::stream
