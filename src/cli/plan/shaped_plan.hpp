#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel::cli {

/// What it would cost to hand a plan's micro-batches out in few shapes, as the first step of a job would
/// choose them.
struct ShapedPlan {
  std::vector<PackedShape> shapes;
  std::int64_t rows = 0;     ///< needed over all CP ranks, filler counted
  std::int64_t padding = 0;  ///< rows added

  /// Of the rows that are needed.
  [[nodiscard]] double part() const { return static_cast<double>(padding) / static_cast<double>(rows); }
};

/// None where the settings do not ask for shapes. Throws ConfigError as first_shapes does. Preconditions:
/// `plan` comes from plan_step of this problem, and keeps the cap.
[[nodiscard]] std::optional<ShapedPlan> shaped_plan(const StepProblem& problem, const StepPlan& plan);

}  // namespace evenkeel::cli
