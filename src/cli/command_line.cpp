#include "cli/command_line.hpp"

#include <chrono>
#include <iostream>
#include <thread>

#include "base/utf8.hpp"
#include "cli/failures.hpp"
#include "cli/launcher.hpp"
#include "cli/terminal/terminal.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::chrono::seconds time_for_the_first_rank{5};

/// Returns the innermost command that the user has named, as it is typed, such as "evenkeel config schema".
std::string full_command_name(const CLI::App& app) {
  const auto named = app.get_subcommands();
  return named.empty() ? app.get_name() : app.get_name() + " " + full_command_name(*named.front());
}

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  // Errors of our own validators have complete messages.
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) return error.what();
  // CLI11 reports missing words before unexpected ones, but a misspelled word causes both errors.
  const std::vector<std::string> unknown = app.remaining(true);
  const std::string text = unknown.empty() ? error.what() : "unexpected argument '" + unknown.front() + "'";
  return text + ". See: " + full_command_name(app) + " --help";
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::CallForVersion&) {
    if (is_first_rank()) std::cout << app.version() << '\n';
  } catch (const CLI::Success&) {
    if (is_first_rank()) std::cout << app.help();
  } catch (const CLI::ParseError& error) {
    // The first rank prints its error at once and fails, and its launcher then usually ends the other ranks.
    // A rank that is still alive after the delay prints its own error.
    if (!is_first_rank()) std::this_thread::sleep_for(time_for_the_first_rank);
    print_error(printable(describe_parse_error(app, error)));
    return wrong_use;
  }
  return 0;
}

}  // namespace evenkeel::cli
