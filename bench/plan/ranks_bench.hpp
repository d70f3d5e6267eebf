#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// The computations of one rank of 1024 to 102 400 in a step, piece by piece, as used in docs/benchmarks.md.
[[nodiscard]] Table pieces_by_ranks(const PlanOptions& options);

}  // namespace evenkeel::bench
