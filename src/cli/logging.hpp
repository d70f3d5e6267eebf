#pragma once

#include <string>

namespace evenkeel::cli {

/// The rank a launcher (Open MPI, Slurm, PMI) gave this process, before MPI is initialized; 0 when there is
/// none.
[[nodiscard]] int launched_rank();

/// Sends log lines, tagged with the rank, to stderr: rank 0's, or every rank's.
void set_up_logging(int rank, bool all_ranks, const std::string& level);

}  // namespace evenkeel::cli
