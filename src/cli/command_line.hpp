#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace evenkeel::cli {

/// Parses the words of `argv` for `app`. Returns the exit status if the program has nothing left to do: 0
/// after printing help or the version, 2 after printing a one-line error. Under a launcher, only the first
/// rank prints help and the version. Other ranks print an error only after a delay, during which the launcher
/// usually ends them, since the first rank has already printed the same error if all ranks have the same
/// words.
[[nodiscard]] std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

}  // namespace evenkeel::cli
