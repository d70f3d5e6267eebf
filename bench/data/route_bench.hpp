#pragma once

#include "bench/benchmarks.hpp"

namespace evenkeel::bench {

/// Adds a table: the time to build one rank's route from a zigzag to a contiguous cut, for a micro-batch of
/// 64 sequences on 8 ranks, compared with loops in PyTorch that build the same arrays, or a note why these
/// are missing. Throws std::logic_error if the loops build other routes.
void add_routes(const PackOptions& options, Report& report);

}  // namespace evenkeel::bench
