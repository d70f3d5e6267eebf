#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// Packs many batches into micro-batches under the cap, with Evenkeel's packing and with others: how many
/// micro-batches there are, how often the cap is exceeded, and how even the work is. Batches of 256 synthetic
/// samples, balanced on tokens.
[[nodiscard]] Table capped_made_up(const PlanOptions& options);
/// The same with batches of 64 samples drawn from the table of lengths, without those above the cap, balanced
/// on flops.
[[nodiscard]] Table capped_from_table(const PlanOptions& options);

}  // namespace evenkeel::bench
