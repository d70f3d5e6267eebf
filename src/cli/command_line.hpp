#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace evenkeel::cli {

/// Parses the words of `argv` for `app`. Returns the exit status if nothing is left to do: 0 after help or
/// the version were shown, 2 after one error line that says what is wrong with the words. Under a launcher
/// the first rank speaks for those that have the same words.
[[nodiscard]] std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

}  // namespace evenkeel::cli
