#pragma once

#include <optional>
#include <string>

#include "support/run_command.hpp"
#include "support/scratch_folder.hpp"

namespace evenkeel::testing_support {

/// A Python that has NumPy.
inline std::optional<std::string> numpy_python() {
  for (const char* const python : {"python3", "/usr/bin/python3"}) {
    if (run_command(std::string(python) + " -c 'import numpy'").status == 0) return python;
  }
  return std::nullopt;
}

}  // namespace evenkeel::testing_support
