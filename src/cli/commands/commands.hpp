#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace evenkeel::cli {

/// Runs the chosen command, and returns the exit status.
using Action = std::function<int()>;

/// Returns example command lines of this program, one per line.
[[nodiscard]] std::string examples_of_program();

/// Each function adds one subcommand to `app`. The subcommand sets `chosen` if the user selects it.
void add_run_command(CLI::App& app, Action& chosen);
void add_plan_command(CLI::App& app, Action& chosen);
void add_fit_command(CLI::App& app, Action& chosen);
void add_synth_command(CLI::App& app, Action& chosen);
void add_buffer_command(CLI::App& app, Action& chosen);
void add_store_command(CLI::App& app, Action& chosen);
void add_inspect_command(CLI::App& app, Action& chosen);
void add_feed_command(CLI::App& app, Action& chosen);
void add_convert_command(CLI::App& app, Action& chosen);
void add_config_command(CLI::App& app, Action& chosen);

}  // namespace evenkeel::cli
