#pragma once

#include <string>

namespace evenkeel::cli {

/// Whether a launcher (mpirun, srun) started this process; MPI need not be initialized.
[[nodiscard]] bool launched();

/// Whether this process is a launcher's first rank, or was started alone; MPI need not be initialized.
[[nodiscard]] bool is_first_rank();

/// Sends log lines, tagged with the rank, to stderr: rank 0's, or every rank's. To be called once.
void set_up_logging(int rank, bool all_ranks, const std::string& level);

}  // namespace evenkeel::cli
