#pragma once

#include <optional>

#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

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
