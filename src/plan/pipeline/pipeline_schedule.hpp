#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// The distribution of a model over the ranks of a pipeline.
struct PipelineShape {
  std::int64_t stages = 1;  ///< number of ranks (pp)
  std::int64_t chunks = 1;  ///< number of parts of the model on each rank (vpp)

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// Returns the number of steps that a simulation of this number of micro-batches takes. Each forward or
/// backward pass through a chunk is one step. Saturates at the largest 64-bit number.
[[nodiscard]] std::int64_t simulation_steps(PipelineShape shape, std::int64_t micro_batches) noexcept;

/// Returns the number of bits by which costs must be shifted right to keep all simulated times in signed
/// 64-bit integers: 0 unless the sum of costs times 3 * stages * chunks overflows. Preconditions: costs are
/// non-negative, and their sum is below 2^63.
[[nodiscard]] int simulation_shift(PipelineShape shape, std::span<const Cost> costs) noexcept;

/// Simulates Megatron-LM's training schedules for micro-batches of unequal cost: 1F1B with a flush at the end
/// (PipeDream-flush) if a stage has one chunk, interleaved 1F1B if it has several (both Narayanan et al.,
/// "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021). With m
/// micro-batches, stage r runs:
/// 1. forward passes only: min(m, stages - r - 1) with one chunk, otherwise min(m * chunks, 2 * (stages - r -
///    1) + (chunks - 1) * stages) passes through single chunks;
/// 2. a forward and a backward pass in turn;
/// 3. the remaining backward passes.
/// A pass starts as soon as the stage is free and the pass's input has arrived.
///
/// Assumptions: all chunks are equal shares of the model, a backward pass takes twice as long as a forward
/// pass, and communication between stages takes no time. If interleaved, Megatron requires the number of
/// micro-batches to be a multiple of the stages; other numbers are rounded up with micro-batches of zero time
/// at the end.
///
/// An object can run any number of simulations; its constructor allocates O(simulation_steps) memory.
class PipelineSimulation {
 public:
  /// Preconditions: stages, chunks >= 1; micro_batches >= 0; simulation_steps() < 2^31.
  PipelineSimulation(PipelineShape shape, std::int64_t micro_batches);

  /// Returns the time at which all stages have finished micro-batches of these costs in this order. The
  /// forward pass of a micro-batch of cost c takes time c in each chunk, so all its passes, forward and
  /// backward, take 3 * stages * chunks * c. O(simulation_steps), exact. Preconditions: one cost per
  /// micro-batch, all non-negative, and shifted by simulation_shift().
  ///
  /// Example: m equal micro-batches of cost c end at 3 * c * (chunks * m + stages - 1).
  [[nodiscard]] std::int64_t end_time(std::span<const Cost> costs);

 private:
  /// Progress of a stage. Passes are numbered in the order in which every stage runs them.
  struct Stage {
    std::int64_t warm_up = 0;    // number of forward passes before the first backward pass
    std::int64_t forwards = 0;   // number of forward passes done
    std::int64_t backwards = 0;  // number of backward passes done
    std::int64_t time = 0;       // end of the last pass that was simulated
  };

  /// Returns the index of the end time of pass `pass` of stage `stage`.
  [[nodiscard]] std::size_t ring_index(std::int64_t stage, std::int64_t pass) const noexcept {
    return static_cast<std::size_t>(stage * ring_ + (pass & (ring_ - 1)));
  }
  /// Runs the stage's next forward or backward pass if its input has arrived. Returns whether it ran.
  bool try_forward(std::int64_t stage);
  bool try_backward(std::int64_t stage);
  /// Runs as many passes of the stage as possible. Returns whether any ran.
  bool advance(std::int64_t stage);

  PipelineShape shape_;
  // Number of forward passes per stage, which is also the number of backward passes.
  std::int64_t passes_ = 0;
  std::int64_t ring_ = 1;  // number of passes per stage whose end times are kept; a power of two
  std::vector<Stage> stages_;
  std::vector<std::int32_t> micro_batch_;  // micro-batch of each forward pass, and of each backward pass
  // By pass: whether the micro-batch has already passed through another chunk. If so, the stage that runs
  // this pass first waits for that chunk.
  std::vector<bool> has_earlier_chunk_;
  std::vector<Cost> costs_;
  std::vector<std::int64_t> forward_ends_;
  std::vector<std::int64_t> backward_ends_;
};

/// The result of simulating the pipelines of a step (PipelineSimulation).
struct SimulatedStep {
  /// End of the step, in units in which a micro-batch's cost is its total time over all stages.
  Cost end = 0;
  double bubble = 0;  ///< average fraction of the time, 0 to 1, in which a stage is idle

  friend bool operator==(const SimulatedStep&, const SimulatedStep&) = default;
};

/// Simulates a plan made with these settings, with micro-batches in the plan's order. DP ranks wait for each
/// other at the end of each mini-batch, so a mini-batch takes as long as its slowest DP rank. The bubble is
/// that of the slowest DP ranks. If ranks synchronize at every micro-batch (balance.meet or, if that is
/// unset, the strategy), the longest of the DP ranks' j-th micro-batches determines the time of all of them.
/// The end is rounded up for each mini-batch. Returns nullopt for one stage, or if the simulations would take
/// more than 2^26 steps. Deterministic, local.
[[nodiscard]] std::optional<SimulatedStep> simulate_step(const StepPlan& plan, const PlanSettings& settings);

/// Returns the end time of a step if pipelines had no bubbles: the sum over mini-batches of the time of the
/// slowest DP rank or, if ranks synchronize at every micro-batch, of the longest of their j-th micro-batches,
/// summed over j. Each micro-batch takes `overhead` longer than its cost. Deterministic, local.
[[nodiscard]] Cost end_time_without_bubbles(const StepPlan& plan, const PlanSettings& settings,
                                            Cost overhead = 0);

}  // namespace evenkeel
