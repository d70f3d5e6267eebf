#include "cli/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>

#include "base/printable.hpp"
#include "cli/failures.hpp"
#include "cli/launcher.hpp"
#include "cli/terminal/help_text.hpp"
#include "cli/terminal/terminal.hpp"
#include "config/suggest.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::chrono::seconds time_for_the_first_rank{5};

/// From the program to the deepest command that the words name.
std::vector<const CLI::App*> named_commands(const CLI::App& app) {
  std::vector<const CLI::App*> commands{&app};
  while (!commands.back()->get_subcommands().empty())
    commands.push_back(commands.back()->get_subcommands().front());
  return commands;
}

std::string see_help(const CLI::App& command) {
  return ". See: " + typed_form(command) + " --help";
}

std::string of_command(const CLI::App& command) {
  return command.get_parent() == nullptr ? "" : " of " + command.get_name();
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string unknown_option(const CLI::App& command, const CLI::App& deepest, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::string text = "unknown option " + name + of_command(command);
  if (&command != &deepest && deepest.get_option_no_throw(name) != nullptr)
    return name + " is an option of " + deepest.get_name() + ": write it after that word";
  const std::vector<std::string> names = option_names(command);
  if (const auto nearest = config_detail::nearest_word(name, names))
    return text + "; did you mean " + *nearest + "?";
  return text + see_help(command);
}

std::string wrong_subcommand(const CLI::App& group) {
  const std::vector<std::string> names = command_names(group);
  const std::vector<std::string> words = group.remaining();
  if (words.empty())
    return fmt::format("name a command{}: {}", of_command(group), fmt::join(names, ", ")) + see_help(group);
  const std::string text = "unknown command '" + words.front() + "'" + of_command(group);
  if (const auto nearest = config_detail::nearest_word(words.front(), names))
    return text + "; did you mean " + *nearest + "?";
  return text + fmt::format("; there are {}", fmt::join(names, ", "));
}

/// Of a help that is asked for: a word where a command should stand, as in "pln --help".
std::string unknown_command_of(const CLI::App& asked) {
  const std::vector<std::string> words = asked.remaining();
  const bool is_command = !words.empty() && !words.front().starts_with('-');
  return is_command && !command_names(asked).empty() ? wrong_subcommand(asked) : "";
}

std::string what_is_missing(const CLI::App& command) {
  std::vector<std::string> missing;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->count() == 0) missing.push_back(typed_form(*option));
  }
  return fmt::format("{} needs {}", command.get_name(), fmt::join(missing, " and ")) + see_help(command);
}

/// The option that CLI11's text begins with, with or without its dashes.
const CLI::Option* option_named_first(const CLI::App& command, const std::string& text) {
  const std::string name = text.substr(0, text.find_first_of(": "));
  for (const CLI::Option* option : command.get_options()) {
    if (option->check_name(name) || option->check_name("--" + name)) return option;
  }
  return nullptr;
}

std::string wrong_number_of_values(const CLI::App& command, const std::string& text) {
  const CLI::Option* option = option_named_first(command, text);
  if (option == nullptr) return text;
  if (option->get_items_expected_max() == 0) return option->get_name() + " takes no value";
  if (option->count() > 1)
    return fmt::format("{} is given {} times; give it once", option->get_name(), option->count());
  return option->get_name() + " needs a value: " + typed_form(*option);
}

/// Where an option was swallowed by one that lacks its value, the words behind it are left over.
std::string option_taken_for_a_value(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& value : option->results()) {
      if (value.starts_with("--"))
        return option->get_name() + ": needs a value; '" + value + "' looks like an option";
    }
  }
  return "";
}

std::string text_of(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<const CLI::App*> commands = named_commands(app);
  const CLI::App& deepest = *commands.back();
  for (const CLI::App* command : commands) {
    for (const std::string& word : command->remaining()) {
      if (word.size() > 1 && word.starts_with('-')) return unknown_option(*command, deepest, word);
    }
  }
  if (!command_names(deepest).empty()) return wrong_subcommand(deepest);
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return wrong_number_of_values(deepest, error.what());
  if (!deepest.remaining().empty()) {
    if (std::string text = option_taken_for_a_value(deepest); !text.empty()) return text;
    return "unexpected argument '" + deepest.remaining().front() + "'" + of_command(deepest) +
           see_help(deepest);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return what_is_missing(deepest);
  return error.what();  // our own checks'
}

/// "help plan" as "plan --help", and the last word first, as CLI11 takes them.
std::vector<std::string> words_for_cli11(std::vector<std::string> words) {
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  std::ranges::reverse(words);
  return words;
}

}  // namespace

std::optional<int> parse_command_line(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(words_for_cli11({argv + 1, argv + argc}));
    return std::nullopt;
  } catch (const CLI::CallForVersion&) {
    if (is_first_rank()) std::cout << app.version() << '\n';
  } catch (const CLI::Success&) {
    const CLI::App& asked = *named_commands(app).back();
    if (const std::string unknown = unknown_command_of(asked); !unknown.empty()) {
      if (is_first_rank()) tell_error(printable(unknown));
      return wrong_use;
    }
    if (is_first_rank()) std::cout << app.help();
  } catch (const CLI::ParseError& error) {
    // The first rank speaks and fails, and with it its launcher ends the others. One that lives on has words
    // of its own.
    if (!is_first_rank()) std::this_thread::sleep_for(time_for_the_first_rank);
    tell_error(printable(text_of(app, error)));
    return wrong_use;
  }
  return 0;
}

}  // namespace evenkeel::cli
