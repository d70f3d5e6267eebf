#pragma once

#include <CLI/CLI.hpp>
#include <optional>

namespace evenkeel::cli {

/// Parses the command-line arguments with `app`. Returns the exit status if the program has nothing left to
/// do: 0 after printing help or the version, 2 after printing a one-line error. Under a launcher, only the
/// first rank prints help and the version. The first rank prints an error at once. Other ranks print their
/// errors only after a delay, during which a launcher usually ends them, since the first rank has already
/// failed with the same error.
[[nodiscard]] std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv);

}  // namespace evenkeel::cli
