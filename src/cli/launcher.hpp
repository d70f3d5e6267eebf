#pragma once

#include <optional>
#include <string>

namespace evenkeel::cli {

/// Whether a launcher (mpirun, srun) started this process; MPI need not be initialized.
[[nodiscard]] bool launched();

/// Whether this process is a launcher's first rank, or was started alone; MPI need not be initialized.
[[nodiscard]] bool is_first_rank();

/// Processes that a launcher started together, as its environment variables say. MPI need not know of them.
struct LaunchedProcesses {
  std::string launcher;  ///< such as "srun"
  std::string variable;  ///< such as "SLURM_STEP_NUM_TASKS=8"
  int number = 1;
  int rank = 0;      ///< of this process
  std::string hint;  ///< how to start one job on them
};

/// The processes that this one was started with; none if it was started alone. The variables of an MPI
/// launcher count before those of others, inside of which it may have been called. A Slurm allocation alone
/// (SLURM_NTASKS) starts no processes, so a shell in it may run a job of one rank.
[[nodiscard]] std::optional<LaunchedProcesses> launched_processes();

/// Whether a launcher started several processes while MPI knows of one alone, so that each of them would run
/// the whole job and write to the same files: then the first of them prints an error that says what to do
/// instead, and the others wait for a moment, since a launcher may end all when one ends. `ranks` are those
/// of MPI_COMM_WORLD.
[[nodiscard]] bool is_started_apart(int ranks);

}  // namespace evenkeel::cli
