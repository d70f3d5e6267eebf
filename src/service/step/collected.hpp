#pragma once

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/step_context.hpp"

namespace evenkeel {

/// Collective over everyone: the results of a step's samples, each on the rank that brought the sample.
/// `error` is what this rank brings instead of its part; so below. All ranks throw, or nobody does.
[[nodiscard]] RaggedBatch collect(const StepContext& context, const Step& step, const StepResults& results,
                                  const GuardedWork& error);

/// The same, with all results on rank `root` of the grid.
[[nodiscard]] RaggedBatch collect_on(const StepContext& context, const Step& step, const StepResults& results,
                                     int root, const GuardedWork& error);

}  // namespace evenkeel
