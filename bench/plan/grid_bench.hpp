#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// How long ranks wait if they meet at every micro-batch: synthetic samples laid out as a grid, compared with
/// differencing over DP ranks, then over each rank's micro-batches.
[[nodiscard]] Table waiting_of_grids(const PlanOptions& options);

}  // namespace evenkeel::bench
