#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"

namespace evenkeel::cli {
namespace {

/// What may be typed behind a command: its own commands, else its options.
struct Choice {
  std::string path;  ///< "" for the program, else as in "config show"
  std::vector<std::string> words;
};

void add_choices(const CLI::App& command, const std::string& path, std::vector<Choice>& choices) {
  Choice own{path, {}};
  const auto commands = command.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* part : commands) own.words.push_back(part->get_name());
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) own.words.push_back("--" + name);
  }
  choices.push_back(std::move(own));
  for (const CLI::App* part : commands)
    add_choices(*part, path.empty() ? part->get_name() : path + " " + part->get_name(), choices);
}

/// A function of bash, which zsh runs after `bashcompinit`. File names are completed where no word fits.
std::string bash_completion(const CLI::App& app) {
  std::vector<Choice> choices;
  add_choices(app, "", choices);
  std::string script =
      "_evenkeel() {\n"
      "  local path= next= words= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    next=\"${path:+$path }${COMP_WORDS[i]}\"\n"
      "    case \"$next\" in\n";
  for (const Choice& choice : choices) {
    if (!choice.path.empty()) script += fmt::format("      '{}') path=\"$next\" ;;\n", choice.path);
  }
  script +=
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n";
  for (const Choice& choice : choices)
    script += fmt::format("    '{}') words='{}' ;;\n", choice.path, fmt::join(choice.words, " "));
  return script +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
         "}\n"
         "complete -o default -F _evenkeel evenkeel\n";
}

}  // namespace

void add_completion_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand("completion", "Print what makes bash complete commands and options");
  command->footer(
      "For bash, in ~/.bashrc; for zsh, in ~/.zshrc behind autoload -U bashcompinit && bashcompinit:\n"
      "\n"
      "Example:\n"
      "  source <(evenkeel completion)");
  command->callback([&app, &chosen] {
    chosen = [&app] {
      std::cout << bash_completion(app);
      return 0;
    };
  });
}

}  // namespace evenkeel::cli
