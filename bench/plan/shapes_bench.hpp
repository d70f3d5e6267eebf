#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// The cost of padding micro-batches to few shapes, for steps of the length table in its order.
[[nodiscard]] Table padding_to_few_shapes(const PlanOptions& options);

}  // namespace evenkeel::bench
