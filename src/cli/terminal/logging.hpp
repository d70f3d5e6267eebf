#pragma once

#include <string>

namespace evenkeel::cli {

/// Sends log lines, tagged with the rank, to stderr: rank 0's, or every rank's. To be called once.
void set_up_logging(int rank, bool all_ranks, const std::string& level);

}  // namespace evenkeel::cli
