#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace evenkeel::cli {

/// What --help prints: usage, what the command does, its arguments and options or subcommands, and its footer
/// with examples, in lines that fit the terminal. Lines of a footer that begin with two spaces are commands
/// to type: they are broken with a backslash, so that they can be copied.
class HelpText : public CLI::FormatterBase {
 public:
  [[nodiscard]] std::string make_help(const CLI::App* app, std::string name,
                                      CLI::AppFormatMode mode) const override;
};

/// An option as it is typed, such as "--set KEY=VALUE", or a positional's name.
[[nodiscard]] std::string typed_form(const CLI::Option& option);

/// A command as it is typed, such as "evenkeel config schema".
[[nodiscard]] std::string typed_form(const CLI::App& command);

}  // namespace evenkeel::cli
