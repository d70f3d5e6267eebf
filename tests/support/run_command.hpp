#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "support/scratch_folder.hpp"

namespace evenkeel::testing_support {

struct ProgramResult {
  int status = -1;  ///< exit status; -1 if a signal ended it
  std::string out;
  std::string err;
};

/// Runs a shell command without standard input and returns what it printed.
inline ProgramResult run_command(const std::string& command) {
  const ScratchFolder scratch;
  const std::string redirected =
      command + " >" + (scratch / "out").string() + " 2>" + (scratch / "err").string() + " </dev/null";
  const int status = std::system(redirected.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_text(scratch / "out"),
          read_text(scratch / "err")};
}

}  // namespace evenkeel::testing_support
