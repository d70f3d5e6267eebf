#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// How a model is cut over the ranks of a pipeline.
struct PipelineShape {
  std::int64_t stages = 1;  ///< ranks (pp)
  std::int64_t chunks = 1;  ///< parts of the model on each of them (vpp)

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// What a simulation of that many micro-batches takes: forward and backward passes through single chunks. The
/// largest 64-bit number where it would be larger.
[[nodiscard]] std::int64_t simulation_steps(PipelineShape shape, std::int64_t micro_batches) noexcept;

/// By how many bits costs must be shifted right so that no time of a simulation passes 64 bits: 0 but for
/// sums that come near 2^62. Costs are nowhere negative, and their sum is below 2^63.
[[nodiscard]] int simulation_shift(PipelineShape shape, std::span<const Cost> costs) noexcept;

/// Megatron-LM's training schedules on micro-batches of uneven cost: 1F1B with a flush at the end
/// (PipeDream-flush) where a stage has one chunk, interleaved 1F1B where it has several (both Narayanan et
/// al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021). Stage r
/// begins with min(m, stages - r - 1) forward passes of the m micro-batches; with several chunks with
/// min(m * chunks, 2 * (stages - r - 1) + (chunks - 1) * stages) passes through single chunks. Then it takes
/// a forward and a backward pass in turn, and at last the backward passes that remain. Passes start as soon
/// as the stage is free and what they need is there.
///
/// Assumed: all chunks are equal shares of the model, a backward pass takes twice a forward pass, and passing
/// on from stage to stage takes no time. Interleaved, the number of micro-batches is a multiple of the
/// stages, as Megatron wants it; another one counts as filled up by some at the end that take no time.
///
/// Keeps its memory, of O(simulation_steps), for as many simulations as one likes.
class PipelineSimulation {
 public:
  /// Precondition: stages, chunks >= 1, micro_batches >= 0, and simulation_steps are below 2^31.
  PipelineSimulation(PipelineShape shape, std::int64_t micro_batches);

  /// When the last stage is done with micro-batches of these costs, in this order, where the forward pass of
  /// one that costs c takes c in each chunk: all of c, forward and backward, takes 3 * stages * chunks * c.
  /// O(simulation_steps), exact. Preconditions: one cost a micro-batch, none negative, and the costs have
  /// been shifted as simulation_shift says.
  ///
  /// Example: m equal micro-batches of cost c end at 3 * c * (chunks * m + stages - 1).
  [[nodiscard]] std::int64_t end(std::span<const Cost> costs);

 private:
  /// How far a stage has come. Passes have numbers, in the order in which every stage takes them.
  struct Stage {
    std::int64_t warm_up = 0;    // forward passes before the first backward pass
    std::int64_t forwards = 0;   // passes done
    std::int64_t backwards = 0;  // passes done
    std::int64_t time = 0;       // when the last of them was done
  };

  /// Where to keep when stage `stage` was done with its pass `pass`.
  [[nodiscard]] std::size_t at(std::int64_t stage, std::int64_t pass) const noexcept {
    return static_cast<std::size_t>(stage * ring_ + (pass & (ring_ - 1)));
  }
  /// One pass of the stage, if what it needs is there.
  bool forward(std::int64_t stage);
  bool backward(std::int64_t stage);
  /// As many passes as it can; whether there was any.
  bool advance(std::int64_t stage);

  PipelineShape shape_;
  std::int64_t passes_ = 0;  // forward passes of a stage, and backward ones
  std::int64_t ring_ = 1;    // passes of a stage whose ends are kept, a power of two
  std::vector<Stage> stages_;
  std::vector<std::int32_t> micro_batch_;  // of each pass, forward and backward alike
  std::vector<bool> follows_;              // whether the pass needs that of another chunk of its micro-batch
  std::vector<Cost> costs_;
  std::vector<std::int64_t> forward_ends_;
  std::vector<std::int64_t> backward_ends_;
};

/// What a step's simulated pipeline comes to (PipelineSimulation).
struct SimulatedStep {
  Cost end = 0;  ///< when it is over, where a micro-batch's cost is what all its stages take for it together
  double bubble = 0;  ///< the share of that in which a stage is idle on average, 0 to 1

  friend bool operator==(const SimulatedStep&, const SimulatedStep&) = default;
};

/// Of a plan made with these settings, in the order of its micro-batches. DP ranks wait for each other at the
/// end of each mini-batch: it takes as long as its slowest DP rank's, whose bubble counts. Where
/// balance.meet says so, or with strategy `grid` if it says nothing, they meet at every micro-batch, and the
/// longest one of each wave stands for all. The end is rounded
/// up for each mini-batch. Nothing where there is one stage, or where simulations took more than 2^26 steps.
/// Deterministic, local.
[[nodiscard]] std::optional<SimulatedStep> simulated_step(const StepPlan& plan, const PlanSettings& settings);

/// When such a step is over if pipelines have no bubbles: of each mini-batch the time of its slowest DP rank,
/// or of the longest micro-batches one after the other where ranks meet at each. Deterministic, local.
[[nodiscard]] Cost planned_end(const StepPlan& plan, const PlanSettings& settings);

}  // namespace evenkeel
