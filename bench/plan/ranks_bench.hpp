#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// What a rank of 1024 to 102 400 works out in a step, piece by piece: what docs/scale.md adds up.
[[nodiscard]] Table pieces_by_ranks(const PlanOptions& options);

}  // namespace evenkeel::bench
