#pragma once

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/step.hpp"
#include "evenkeel/service/step_results.hpp"
#include "mesh/fail_together.hpp"
#include "service/step/step_context.hpp"

namespace evenkeel {

/// Collective over all ranks: returns the results of a step's samples, each on the rank that owns the sample.
/// `error` is an error that has already occurred on this rank. Either all ranks throw the same error or no
/// rank does.
[[nodiscard]] RaggedBatch collect(const StepContext& context, const Step& step, const StepResults& results,
                                  const GuardedWork& error);

/// Same as collect(), but gathers all results on rank `root` of the grid.
[[nodiscard]] RaggedBatch collect_on(const StepContext& context, const Step& step, const StepResults& results,
                                     int root, const GuardedWork& error);

}  // namespace evenkeel
