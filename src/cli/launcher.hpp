#pragma once

namespace evenkeel::cli {

/// Whether a launcher (mpirun, srun) started this process; MPI need not be initialized.
[[nodiscard]] bool launched();

/// Whether this process is a launcher's first rank, or was started alone; MPI need not be initialized.
[[nodiscard]] bool is_first_rank();

}  // namespace evenkeel::cli
