#pragma once

#include "cli/commands/commands.hpp"

namespace evenkeel::bench {

/// Adds all benchmarks as commands of `app`; the command that the user selects sets `chosen`.
void add_commands(CLI::App& app, cli::Action& chosen);

}  // namespace evenkeel::bench
