#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// What handing micro-batches out in few shapes costs, on steps of the length table in its order.
[[nodiscard]] Table padding_to_few_shapes(const PlanOptions& options);

}  // namespace evenkeel::bench
