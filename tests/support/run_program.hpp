#pragma once

#include <string>

#include "support/run_command.hpp"

namespace evenkeel::testing_support {

/// Runs the evenkeel program on its own.
inline ProgramResult run_evenkeel(const std::string& arguments) {
  return run_command(std::string(EVENKEEL_PROGRAM) + " " + arguments);
}

/// Runs the evenkeel program on `ranks` ranks.
inline ProgramResult mpirun_evenkeel(int ranks, const std::string& arguments) {
  return run_command(std::string(EVENKEEL_MPIRUN) + " -np " + std::to_string(ranks) + " " + EVENKEEL_PROGRAM +
                     " " + arguments);
}

}  // namespace evenkeel::testing_support
