#include "cli/launcher.hpp"

#include <array>
#include <cstdlib>
#include <string_view>

namespace evenkeel::cli {
namespace {

/// This process's rank as its launcher says; nothing without one.
const char* launchers_rank() {
  for (const char* name : std::array{"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(name)) return rank;
  }
  return nullptr;
}

// Asked before main: MPI sets these variables itself in a process that was started alone.
const bool was_launched = launchers_rank() != nullptr;
const bool was_launched_first = !was_launched || std::string_view(launchers_rank()) == "0";

}  // namespace

bool launched() {
  return was_launched;
}

bool is_first_rank() {
  return was_launched_first;
}

}  // namespace evenkeel::cli
