#pragma once

#include <string>

#include "support/run_command.hpp"

namespace evenkeel::testing_support {

/// Starts several programs in one job, whose ranks are numbered program after program. Without this option,
/// Open MPI 5 numbers ranks by where they run; and the version in Debian 13 crashes unless PMIx leaves its
/// variables, such as OMPI_COMM_WORLD_RANK, unset (open-mpi/ompi issue 13303).
inline const std::string mpirun_programs =
    std::string("env PMIX_MCA_pmdl=^ompi PRTE_MCA_rmaps_default_ranking_policy=slot ") + EVENKEEL_MPIRUN;

/// Runs the evenkeel program without mpirun.
inline ProgramResult run_evenkeel(const std::string& arguments) {
  return run_command(std::string(EVENKEEL_PROGRAM) + " " + arguments);
}

/// Runs the evenkeel program on `ranks` ranks.
inline ProgramResult mpirun_evenkeel(int ranks, const std::string& arguments) {
  return run_command(std::string(EVENKEEL_MPIRUN) + " -np " + std::to_string(ranks) + " " + EVENKEEL_PROGRAM +
                     " " + arguments);
}

}  // namespace evenkeel::testing_support
