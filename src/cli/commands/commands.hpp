#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace evenkeel::cli {

/// What a parsed command line asks for: runs the command, returns the exit status.
using Action = std::function<int()>;

/// Command lines that show what this program can do, a line each.
[[nodiscard]] std::string examples_of_program();

/// Each adds one subcommand to `app` and, when the user chooses it, sets `chosen`.
void add_run_command(CLI::App& app, Action& chosen);
void add_plan_command(CLI::App& app, Action& chosen);
void add_synth_command(CLI::App& app, Action& chosen);
void add_buffer_command(CLI::App& app, Action& chosen);
void add_inspect_command(CLI::App& app, Action& chosen);
void add_feed_command(CLI::App& app, Action& chosen);
void add_convert_command(CLI::App& app, Action& chosen);
void add_config_command(CLI::App& app, Action& chosen);

}  // namespace evenkeel::cli
