#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// A plan of 2^20 samples on dp 2048, cp 8, stage by stage, and the peak memory of this process so far; other
/// tables should therefore come later.
[[nodiscard]] Table plan_of_a_million(const PlanOptions& options);

}  // namespace evenkeel::bench
