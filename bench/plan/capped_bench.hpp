#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// Many batches packed into micro-batches under the cap, by Evenkeel's packing and by others: how many
/// micro-batches, how often the cap breaks, how even the work is.
/// Batches of 256 made-up samples, balanced on tokens.
[[nodiscard]] Table capped_made_up(const PlanOptions& options);
/// Batches of 64 samples drawn from the table of lengths, those above the cap left out, balanced on flops.
[[nodiscard]] Table capped_from_table(const PlanOptions& options);

}  // namespace evenkeel::bench
