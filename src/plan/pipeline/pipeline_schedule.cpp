#include "plan/pipeline/pipeline_schedule.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t latest_time = std::numeric_limits<std::int64_t>::max();

std::int64_t saturating_product(std::int64_t left, std::int64_t right) noexcept {
  return right != 0 && left > latest_time / right ? latest_time : left * right;
}

/// Returns the number of micro-batches rounded up to a multiple of the stages if there are several chunks,
/// since the interleaved schedule runs micro-batches in groups of that size.
std::int64_t round_up_to_stages(PipelineShape shape, std::int64_t micro_batches) noexcept {
  if (shape.chunks == 1) return micro_batches;
  const std::int64_t groups = micro_batches / shape.stages + (micro_batches % shape.stages != 0 ? 1 : 0);
  return saturating_product(groups, shape.stages);
}

std::int64_t num_warm_up_passes(PipelineShape shape, std::int64_t stage) noexcept {
  const std::int64_t after = shape.stages - stage - 1;
  return shape.chunks == 1 ? after : 2 * after + (shape.chunks - 1) * shape.stages;
}

/// Times of micro-batches in the order in which a pipeline runs them.
using Times = std::vector<Cost>;

/// Returns the times of the micro-batches by mini-batch and pipeline. If ranks synchronize at every
/// micro-batch, each mini-batch has one pipeline, whose j-th time is the longest of the DP ranks' j-th
/// micro-batches.
std::vector<std::vector<Times>> micro_batch_times(const StepPlan& plan, const PlanSettings& settings) {
  const std::optional<SyncPoint> told = settings.balance.meet;
  const bool meet =
      told ? *told == SyncPoint::micro_batch : strategy_of(settings).ranks_meet_at_micro_batches();
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

bool is_too_large_to_simulate(const std::vector<std::vector<Times>>& times, PipelineShape shape) {
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

/// The time at which one pipeline ends, and the work of its stages.
struct PipelineFigures {
  Cost end = 0;
  Cost work = 0;  ///< time in which the stages are not idle, summed over all stages
};

PipelineFigures simulate(Times times, PipelineShape shape) {
  const Cost work = std::accumulate(times.begin(), times.end(), Cost{0});
  const int shift = simulation_shift(shape, times);
  for (Cost& time : times) time >>= shift;
  const std::int64_t end_time = PipelineSimulation(shape, std::ssize(times)).end_time(times);
  const std::int64_t unit = 3 * shape.stages * shape.chunks;
  return {(end_time / unit + (end_time % unit != 0 ? 1 : 0)) << shift, work};
}

}  // namespace

std::int64_t simulation_steps(PipelineShape shape, std::int64_t micro_batches) noexcept {
  const std::int64_t passes = saturating_product(round_up_to_stages(shape, micro_batches), shape.chunks);
  return saturating_product(saturating_product(passes, shape.stages), 2);
}

int simulation_shift(PipelineShape shape, std::span<const Cost> costs) noexcept {
  const Cost sum = std::accumulate(costs.begin(), costs.end(), Cost{0});
  // Every simulated time is at most the total time of all passes of all stages.
  const std::int64_t passes = saturating_product(saturating_product(shape.stages, shape.chunks), 3);
  int shift = 0;
  while (saturating_product(passes, sum >> shift) == latest_time) ++shift;
  return shift;
}

PipelineSimulation::PipelineSimulation(PipelineShape shape, std::int64_t micro_batches) : shape_(shape) {
  EVENKEEL_PRECONDITION(cheap, shape.stages >= 1 && shape.chunks >= 1, shape.stages, shape.chunks);
  EVENKEEL_PRECONDITION(cheap, micro_batches >= 0, micro_batches);
  EVENKEEL_PRECONDITION(cheap, simulation_steps(shape, micro_batches) < std::int64_t{1} << 31, shape.stages,
                        shape.chunks, micro_batches);
  const std::int64_t count = round_up_to_stages(shape, micro_batches);
  passes_ = count * shape.chunks;
  costs_.resize(static_cast<std::size_t>(count));
  const std::int64_t in_group = shape.stages * shape.chunks;
  for (std::int64_t pass = 0; pass < passes_; ++pass) {
    const std::int64_t group = pass / in_group;
    micro_batch_.push_back(static_cast<std::int32_t>(group * shape.stages + pass % shape.stages));
    has_earlier_chunk_.push_back(pass % in_group >= shape.stages);
  }
  for (std::int64_t stage = 0; stage < shape.stages; ++stage)
    stages_.push_back({std::min(passes_, num_warm_up_passes(shape, stage)), 0, 0, 0});
  // Other stages need the end times of only the latest passes: at most as many as the warm-up passes of the
  // first stage plus one group.
  const std::int64_t kept = std::min(passes_, stages_.front().warm_up + shape.stages + 2);
  ring_ =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, kept))));
  forward_ends_.resize(static_cast<std::size_t>(shape.stages * ring_));
  backward_ends_.resize(forward_ends_.size());
}

bool PipelineSimulation::try_forward(std::int64_t stage) {
  Stage& own = stages_[static_cast<std::size_t>(stage)];
  const std::int64_t pass = own.forwards;
  std::int64_t start = own.time;
  if (stage > 0) {
    if (stages_[static_cast<std::size_t>(stage - 1)].forwards <= pass) return false;
    start = std::max(start, forward_ends_[ring_index(stage - 1, pass)]);
  } else if (has_earlier_chunk_[static_cast<std::size_t>(pass)]) {
    const std::int64_t before = pass - shape_.stages;
    if (stages_.back().forwards <= before) return false;
    start = std::max(start, forward_ends_[ring_index(shape_.stages - 1, before)]);
  }
  const auto micro_batch = static_cast<std::size_t>(micro_batch_[static_cast<std::size_t>(pass)]);
  own.time = start + costs_[micro_batch];
  forward_ends_[ring_index(stage, pass)] = own.time;
  ++own.forwards;
  return true;
}

bool PipelineSimulation::try_backward(std::int64_t stage) {
  Stage& own = stages_[static_cast<std::size_t>(stage)];
  const std::int64_t pass = own.backwards;
  std::int64_t start = own.time;
  if (stage + 1 < shape_.stages) {
    if (stages_[static_cast<std::size_t>(stage + 1)].backwards <= pass) return false;
    start = std::max(start, backward_ends_[ring_index(stage + 1, pass)]);
  } else if (has_earlier_chunk_[static_cast<std::size_t>(pass)]) {
    const std::int64_t before = pass - shape_.stages;
    if (stages_.front().backwards <= before) return false;
    start = std::max(start, backward_ends_[ring_index(0, before)]);
  }
  const auto micro_batch = static_cast<std::size_t>(micro_batch_[static_cast<std::size_t>(pass)]);
  own.time = start + 2 * costs_[micro_batch];
  backward_ends_[ring_index(stage, pass)] = own.time;
  ++own.backwards;
  return true;
}

bool PipelineSimulation::advance(std::int64_t stage) {
  const Stage& own = stages_[static_cast<std::size_t>(stage)];
  bool any = false;
  while (own.backwards < passes_) {
    const bool is_forward = own.forwards < passes_ && own.forwards - own.backwards <= own.warm_up;
    if (!(is_forward ? try_forward(stage) : try_backward(stage))) return any;
    any = true;
  }
  return any;
}

std::int64_t PipelineSimulation::end_time(std::span<const Cost> costs) {
  EVENKEEL_PRECONDITION(cheap, costs.size() <= costs_.size(), costs.size(), costs_.size());
  EVENKEEL_PRECONDITION(thorough, std::ranges::all_of(costs, [](Cost cost) { return cost >= 0; }),
                        costs.size());
  EVENKEEL_PRECONDITION(thorough, simulation_shift(shape_, costs) == 0, costs.size());
  std::ranges::copy(costs, costs_.begin());
  for (Stage& stage : stages_) stage = {stage.warm_up, 0, 0, 0};
  for (bool any = true; any;) {
    any = false;
    for (std::int64_t stage = 0; stage < shape_.stages; ++stage) any = advance(stage) || any;
    for (std::int64_t stage = shape_.stages; stage > 0; --stage) any = advance(stage - 1) || any;
  }
  std::int64_t end = 0;
  for (const Stage& stage : stages_) {
    EVENKEEL_INVARIANT(cheap, stage.forwards == passes_ && stage.backwards == passes_, stage.forwards,
                       stage.backwards, passes_);
    end = std::max(end, stage.time);
  }
  return end;
}

Cost end_time_without_bubbles(const StepPlan& plan, const PlanSettings& settings, Cost overhead) {
  Cost end = 0;
  for (const std::vector<Times>& of_mini_batch : micro_batch_times(plan, settings)) {
    Cost slowest = 0;
    for (const Times& own : of_mini_batch)
      slowest = std::max(slowest, std::accumulate(own.begin(), own.end(), overhead * std::ssize(own)));
    end += slowest;
  }
  return end;
}

std::optional<SimulatedStep> simulate_step(const StepPlan& plan, const PlanSettings& settings) {
  if (settings.pp == 1) return std::nullopt;
  const PipelineShape shape{settings.pp, settings.vpp};
  const std::vector<std::vector<Times>> times = micro_batch_times(plan, settings);
  if (is_too_large_to_simulate(times, shape)) return std::nullopt;
  PipelineFigures step;
  for (const std::vector<Times>& of_mini_batch : times) {
    PipelineFigures slowest;
    for (const Times& own : of_mini_batch) {
      const PipelineFigures other = simulate(own, shape);
      if (other.end > slowest.end) slowest = other;
    }
    step.end += slowest.end;
    step.work += slowest.work;
  }
  if (step.end == 0) return SimulatedStep{};
  // Total time available to all stages.
  const double all = static_cast<double>(step.end) * static_cast<double>(settings.pp);
  return SimulatedStep{step.end, std::max(0.0, 1 - static_cast<double>(step.work) / all)};
}

}  // namespace evenkeel
