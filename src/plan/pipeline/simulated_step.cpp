#include "plan/pipeline/simulated_step.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/pipeline/pipeline_schedule.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

/// Times of micro-batches in the order in which a pipeline runs them.
using Times = std::vector<Cost>;

/// Of each mini-batch what each pipeline runs.
std::vector<std::vector<Times>> times_of(const StepPlan& plan, const PlanSettings& settings) {
  const std::optional<Meeting> told = settings.balance.meet;
  const bool meet = told ? *told == Meeting::every_micro_batch : strategy_of(settings).ranks_meet();
  std::vector<std::vector<Times>> times(plan.counts.size());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    std::vector<std::size_t> next(times.size());
    for (const MicroBatchPlan& m : plan.ranks[r].micro_batches) {
      const std::size_t mini_batch = m.mini_batch.index();
      const std::size_t pipeline = meet ? 0 : r;
      std::vector<Times>& of_mini_batch = times[mini_batch];
      if (of_mini_batch.size() <= pipeline) of_mini_batch.resize(pipeline + 1);
      Times& own = of_mini_batch[pipeline];
      const std::size_t at = next[mini_batch]++;
      if (own.size() <= at) own.resize(at + 1);
      own[at] = std::max(own[at], settings.time_of(m.cost, static_cast<std::int64_t>(r)));
    }
  }
  return times;
}

bool are_too_many(const std::vector<std::vector<Times>>& times, PipelineShape shape) {
  constexpr std::int64_t most = std::int64_t{1} << 26;
  std::int64_t left = most;
  for (const std::vector<Times>& of_mini_batch : times) {
    for (const Times& own : of_mini_batch) {
      const std::int64_t steps = simulation_steps(shape, std::ssize(own));
      if (steps > left) return true;
      left -= steps;
    }
  }
  return false;
}

/// One pipeline's end, and what its stages work of it.
struct Simulated {
  Cost end = 0;
  Cost work = 0;  ///< of all stages together
};

Simulated simulated(Times times, PipelineShape shape) {
  const Cost work = std::accumulate(times.begin(), times.end(), Cost{0});
  const int shift = simulation_shift(shape, times);
  for (Cost& time : times) time >>= shift;
  const std::int64_t end = PipelineSimulation(shape, std::ssize(times)).end(times);
  const std::int64_t unit = 3 * shape.stages * shape.chunks;
  return {(end / unit + (end % unit != 0 ? 1 : 0)) << shift, work};
}

}  // namespace

Cost planned_end(const StepPlan& plan, const PlanSettings& settings) {
  Cost end = 0;
  for (const std::vector<Times>& of_mini_batch : times_of(plan, settings)) {
    Cost slowest = 0;
    for (const Times& own : of_mini_batch)
      slowest = std::max(slowest, std::accumulate(own.begin(), own.end(), Cost{0}));
    end += slowest;
  }
  return end;
}

std::optional<SimulatedStep> simulated_step(const StepPlan& plan, const PlanSettings& settings) {
  if (settings.pp == 1) return std::nullopt;
  const PipelineShape shape{settings.pp, settings.vpp};
  const std::vector<std::vector<Times>> times = times_of(plan, settings);
  if (are_too_many(times, shape)) return std::nullopt;
  Simulated step;
  for (const std::vector<Times>& of_mini_batch : times) {
    Simulated slowest;
    for (const Times& own : of_mini_batch) {
      const Simulated other = simulated(own, shape);
      if (other.end > slowest.end) slowest = other;
    }
    step.end += slowest.end;
    step.work += slowest.work;
  }
  if (step.end == 0) return SimulatedStep{};
  // All stages together have so much time.
  const double all = static_cast<double>(step.end) * static_cast<double>(settings.pp);
  return SimulatedStep{step.end, std::max(0.0, 1 - static_cast<double>(step.work) / all)};
}

}  // namespace evenkeel
