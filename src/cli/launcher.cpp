#include "cli/launcher.hpp"

#include <array>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "base/text/parse_number.hpp"
#include "cli/terminal/terminal.hpp"

namespace evenkeel::cli {
namespace {

/// Returns this process's rank according to its launcher, or null without a launcher.
const char* launcher_rank() {
  for (const char* name : std::array{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return rank;
  }
  return nullptr;
}

/// Returns the number in an environment variable, or nullopt.
std::optional<int> read_number_variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int> number = parse_as<int>(value);
  return number && *number >= 0 ? number : std::nullopt;
}

constexpr const char* own_mpirun =
    "Start it with the mpirun of the MPI library that evenkeel is linked to (ldd shows it): mpirun -n ";

/// Environment variables of a launcher that show how many processes it started.
struct LauncherVariables {
  const char* launcher;
  const char* required;  ///< if this variable is unset, the others were set by a different program
  const char* number;
  const char* rank;
  const char* hint;  ///< beginning of the hint; the number of processes is appended
};

constexpr std::array launchers{
    LauncherVariables{"the mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                      "OMPI_COMM_WORLD_RANK", own_mpirun},
    LauncherVariables{"an MPI launcher (PMI)", "PMI_SIZE", "PMI_SIZE", "PMI_RANK", own_mpirun},
    LauncherVariables{"the mpirun of MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE",
                      "MV2_COMM_WORLD_RANK", own_mpirun},
    // Kubernetes operators for PyTorch set WORLD_SIZE in a pod before torchrun is called.
    LauncherVariables{"torchrun", "LOCAL_RANK", "WORLD_SIZE", "RANK",
                      "torchrun does not start MPI jobs: mpirun -n "},
    LauncherVariables{"srun", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
                      "Call mpirun in the allocation, or let Slurm connect the ranks (srun --mpi=list shows "
                      "the ways): srun --mpi=pmix -n "}};

std::optional<LaunchedProcesses> find_launched_processes() {
  for (const LauncherVariables& variables : launchers) {
    const std::optional<int> number = read_number_variable(variables.number);
    if (!number || std::getenv(variables.required) == nullptr) continue;
    const std::string text = std::to_string(*number);
    return LaunchedProcesses{variables.launcher, std::string(variables.number) + "=" + text, *number,
                             read_number_variable(variables.rank).value_or(0), variables.hint + text};
  }
  // PMIx sets only the rank of this process, not the number of processes.
  const int rank = read_number_variable("PMIX_RANK").value_or(0);
  if (rank == 0) return std::nullopt;
  const std::string least = std::to_string(rank + 1);
  return LaunchedProcesses{"a launcher (PMIx)", "PMIX_RANK=" + std::to_string(rank), rank + 1, rank,
                           own_mpirun + least};
}

// Evaluated before main, because MPI itself sets these variables in a process that was started alone.
const bool was_launched = launcher_rank() != nullptr;
const bool was_launched_first = !was_launched || std::string_view(launcher_rank()) == "0";
const std::optional<LaunchedProcesses> started_processes = find_launched_processes();

}  // namespace

bool is_launched() {
  return was_launched;
}

bool is_first_rank() {
  return was_launched_first;
}

std::optional<LaunchedProcesses> launched_processes() {
  return started_processes;
}

bool report_launch_without_mpi(int ranks) {
  if (ranks > 1 || !started_processes || started_processes->number <= 1) return false;
  const LaunchedProcesses& processes = *started_processes;
  if (processes.rank > 0) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return true;
  }
  print_error(processes.launcher + " started " + std::to_string(processes.number) + " processes (" +
              processes.variable + "), but MPI connects only one: each would run the whole job. " +
              processes.hint + " evenkeel run ...");
  return true;
}

}  // namespace evenkeel::cli
