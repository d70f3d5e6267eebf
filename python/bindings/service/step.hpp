#pragma once

#include <cstddef>
#include <memory>

#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"

namespace evenkeel::python {

/// A step and what was computed for it so far.
struct HeldStep {
  explicit HeldStep(Step made) : step(std::move(made)), results(step.micro_batches.size()) {}

  Step step;
  StepResults results;
};

/// One of its micro-batches.
struct HeldMicroBatch {
  std::shared_ptr<HeldStep> of;
  std::size_t index;

  [[nodiscard]] MicroBatch& get() const { return of->step.micro_batches[index]; }
};

}  // namespace evenkeel::python
