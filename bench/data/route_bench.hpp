#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// Adds a table: building one rank's route from a zigzag to a contiguous cut, of a micro-batch of 64
/// sequences on 8 ranks, against loops in PyTorch that build the same arrays, or a note why there is none.
/// Throws std::logic_error if the loops build other routes.
void add_routes(const PackOptions& options, Report& report);

}  // namespace evenkeel::bench
