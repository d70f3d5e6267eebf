#pragma once

#include <optional>
#include <string>

namespace evenkeel::cli {

/// Returns whether a launcher of MPI jobs (such as mpirun) started this process. MPI need not be initialized.
[[nodiscard]] bool is_launched();

/// Returns whether this process is a launcher's first rank, or was started alone. MPI need not be
/// initialized.
[[nodiscard]] bool is_first_rank();

/// Processes that a launcher started together, according to its environment variables. MPI may fail to
/// connect them.
struct LaunchedProcesses {
  std::string launcher;  ///< name of the launcher, such as "srun"
  /// Environment variable that shows that several processes were started, such as "SLURM_STEP_NUM_TASKS=8".
  std::string variable;
  int number = 1;
  int rank = 0;      ///< rank of this process
  std::string hint;  ///< how to start the processes as one MPI job
};

/// Returns the processes with which this one was started, or nullopt if it was started alone. Also returns
/// nullopt on rank 0 if the launcher sets only PMIX_RANK, which does not show whether there are other ranks.
/// The variables of an MPI launcher take precedence over those of other launchers, since another launcher may
/// have started the MPI launcher. A Slurm allocation alone (SLURM_NTASKS) does not start processes, so a
/// shell in it may run a job of one rank.
[[nodiscard]] std::optional<LaunchedProcesses> launched_processes();

/// Returns whether a launcher started several processes but MPI sees only one, so that each process would run
/// the whole job and write to the same files. In this case, the first process prints an error with the
/// remedy, and the others wait for a moment, since a launcher may end all processes as soon as one ends.
/// `ranks` is the size of MPI_COMM_WORLD.
[[nodiscard]] bool report_launch_without_mpi(int ranks);

}  // namespace evenkeel::cli
