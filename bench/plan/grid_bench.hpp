#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// What ranks wait for where they meet at every micro-batch: made-up samples laid out as a grid, and by
/// differencing over DP ranks, then over each rank's micro-batches.
[[nodiscard]] Table waiting_of_grids(const PlanOptions& options);

}  // namespace evenkeel::bench
