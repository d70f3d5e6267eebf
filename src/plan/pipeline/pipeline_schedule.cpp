#include "plan/pipeline/pipeline_schedule.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t latest_time = std::numeric_limits<std::int64_t>::max();

std::int64_t product_up_to_most(std::int64_t left, std::int64_t right) noexcept {
  return right != 0 && left > latest_time / right ? latest_time : left * right;
}

/// With several chunks the schedule takes micro-batches in groups of as many as there are stages.
std::int64_t filled_up(PipelineShape shape, std::int64_t micro_batches) noexcept {
  if (shape.chunks == 1) return micro_batches;
  const std::int64_t groups = micro_batches / shape.stages + (micro_batches % shape.stages != 0 ? 1 : 0);
  return product_up_to_most(groups, shape.stages);
}

std::int64_t warm_up_of(PipelineShape shape, std::int64_t stage) noexcept {
  const std::int64_t after = shape.stages - stage - 1;
  return shape.chunks == 1 ? after : 2 * after + (shape.chunks - 1) * shape.stages;
}

}  // namespace

std::int64_t simulation_steps(PipelineShape shape, std::int64_t micro_batches) noexcept {
  const std::int64_t passes = product_up_to_most(filled_up(shape, micro_batches), shape.chunks);
  return product_up_to_most(product_up_to_most(passes, shape.stages), 2);
}

int simulation_shift(PipelineShape shape, std::span<const Cost> costs) noexcept {
  const Cost sum = std::accumulate(costs.begin(), costs.end(), Cost{0});
  // No time passes what all passes of all stages take one after the other.
  const std::int64_t passes = product_up_to_most(product_up_to_most(shape.stages, shape.chunks), 3);
  int shift = 0;
  while (product_up_to_most(passes, sum >> shift) == latest_time) ++shift;
  return shift;
}

PipelineSimulation::PipelineSimulation(PipelineShape shape, std::int64_t micro_batches) : shape_(shape) {
  EVENKEEL_PRECONDITION(cheap, shape.stages >= 1 && shape.chunks >= 1, shape.stages, shape.chunks);
  EVENKEEL_PRECONDITION(cheap, micro_batches >= 0, micro_batches);
  EVENKEEL_PRECONDITION(cheap, simulation_steps(shape, micro_batches) < std::int64_t{1} << 31, shape.stages,
                        shape.chunks, micro_batches);
  const std::int64_t count = filled_up(shape, micro_batches);
  passes_ = count * shape.chunks;
  costs_.resize(static_cast<std::size_t>(count));
  const std::int64_t in_group = shape.stages * shape.chunks;
  for (std::int64_t pass = 0; pass < passes_; ++pass) {
    const std::int64_t group = pass / in_group;
    micro_batch_.push_back(static_cast<std::int32_t>(group * shape.stages + pass % shape.stages));
    follows_.push_back(pass % in_group >= shape.stages);
  }
  for (std::int64_t stage = 0; stage < shape.stages; ++stage)
    stages_.push_back({std::min(passes_, warm_up_of(shape, stage)), 0, 0, 0});
  // What a stage has done and another still waits for is never further back than the first one's warm-up and
  // one group.
  const std::int64_t kept = std::min(passes_, stages_.front().warm_up + shape.stages + 2);
  ring_ =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(1, kept))));
  forward_ends_.resize(static_cast<std::size_t>(shape.stages * ring_));
  backward_ends_.resize(forward_ends_.size());
}

bool PipelineSimulation::forward(std::int64_t stage) {
  Stage& own = stages_[static_cast<std::size_t>(stage)];
  const std::int64_t pass = own.forwards;
  std::int64_t start = own.time;
  if (stage > 0) {
    if (stages_[static_cast<std::size_t>(stage - 1)].forwards <= pass) return false;
    start = std::max(start, forward_ends_[at(stage - 1, pass)]);
  } else if (follows_[static_cast<std::size_t>(pass)]) {
    const std::int64_t before = pass - shape_.stages;
    if (stages_.back().forwards <= before) return false;
    start = std::max(start, forward_ends_[at(shape_.stages - 1, before)]);
  }
  const auto micro_batch = static_cast<std::size_t>(micro_batch_[static_cast<std::size_t>(pass)]);
  own.time = start + costs_[micro_batch];
  forward_ends_[at(stage, pass)] = own.time;
  ++own.forwards;
  return true;
}

bool PipelineSimulation::backward(std::int64_t stage) {
  Stage& own = stages_[static_cast<std::size_t>(stage)];
  const std::int64_t pass = own.backwards;
  std::int64_t start = own.time;
  if (stage + 1 < shape_.stages) {
    if (stages_[static_cast<std::size_t>(stage + 1)].backwards <= pass) return false;
    start = std::max(start, backward_ends_[at(stage + 1, pass)]);
  } else if (follows_[static_cast<std::size_t>(pass)]) {
    const std::int64_t before = pass - shape_.stages;
    if (stages_.front().backwards <= before) return false;
    start = std::max(start, backward_ends_[at(0, before)]);
  }
  const auto micro_batch = static_cast<std::size_t>(micro_batch_[static_cast<std::size_t>(pass)]);
  own.time = start + 2 * costs_[micro_batch];
  backward_ends_[at(stage, pass)] = own.time;
  ++own.backwards;
  return true;
}

bool PipelineSimulation::advance(std::int64_t stage) {
  const Stage& own = stages_[static_cast<std::size_t>(stage)];
  bool any = false;
  while (own.backwards < passes_) {
    const bool is_forward = own.forwards < passes_ && own.forwards - own.backwards <= own.warm_up;
    if (!(is_forward ? forward(stage) : backward(stage))) return any;
    any = true;
  }
  return any;
}

std::int64_t PipelineSimulation::end(std::span<const Cost> costs) {
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

}  // namespace evenkeel
