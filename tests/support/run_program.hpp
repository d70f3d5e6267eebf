#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "support/scratch_folder.hpp"

namespace evenkeel::testing_support {

struct ProgramResult {
  int status = -1;  ///< exit status; -1 when a signal ended it
  std::string out;
  std::string err;
};

/// Runs a shell command without standard input and keeps what it printed.
inline ProgramResult run_command(const std::string& command) {
  const ScratchFolder scratch;
  const std::string redirected =
      command + " >" + (scratch / "out").string() + " 2>" + (scratch / "err").string() + " </dev/null";
  const int status = std::system(redirected.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(scratch / "out"),
          read_text(scratch / "err")};
}

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
