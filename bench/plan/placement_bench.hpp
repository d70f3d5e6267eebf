#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// Number of tokens that change ranks if parts go to the DP ranks that hold most of them, and if part r goes
/// to DP rank r; owners are drawn at random.
[[nodiscard]] Table tokens_moved(const PlanOptions& options);

}  // namespace evenkeel::bench
