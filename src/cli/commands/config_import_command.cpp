#include <iostream>
#include <span>

#include <unistd.h>

#include "cli/commands/commands.hpp"
#include "cli/failures.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/terminal.hpp"
#include "config/import.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "io/files/atomic_file.hpp"

#ifndef __linux__
extern char** environ;  // POSIX leaves it to programs to declare it
#endif

namespace evenkeel::cli {
namespace {

struct Options {
  std::filesystem::path file;
  std::filesystem::path output;
  std::string from;
  std::vector<std::string> overrides;
  bool preset = false;
  bool allow_missing = false;
};

constexpr const char* footer =
    "The configuration goes to standard output and the table to standard error; with --output, the "
    "configuration goes to the file and the table to standard output. Keys that could not be used are "
    "listed with the reason: nothing is dropped in silence. Where something is not found that decides "
    "memory, batches, the mesh or the loss, nothing is written and the status is 1; --allow-missing "
    "writes it with Evenkeel's defaults.\n\n"
    "Files that its defaults lists name are looked for beside it. Overrides are those of the launch "
    "command, in Hydra's words: KEY=VALUE, +KEY=VALUE, ++KEY=VALUE, ~KEY, GROUP=OPTION.\n\n"
    "Examples:\n"
    "  evenkeel config import grpo.yaml > evenkeel.yaml\n"
    "  evenkeel config import ppo_trainer.yaml --from verl --preset --output evenkeel.yaml\n"
    "  evenkeel config import verl/trainer/config/ppo_trainer.yaml --override data.train_batch_size=512 "
    "actor_rollout_ref.actor.use_dynamic_bsz=True "
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24576";

std::map<std::string, std::string> environment_variables() {
  std::map<std::string, std::string> all;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) all.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return all;
}

/// A file that a defaults list names; nothing when there is none.
std::optional<std::string> read_named_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  return read_config_text(path);
}

ImportedConfig import_from(const Options& options) {
  ImportSettings import;
  import.from = foreign_system(options.from);
  import.preset = options.preset;
  import.overrides = options.overrides;
  import.environment = environment_variables();
  import.read_file = read_named_file;
  return import_config(read_config_text(options.file), options.file.string(), import);
}

int run(const Options& options) {
  const ImportedConfig imported = import_from(options);
  if (!imported.missing.empty() && !options.allow_missing) {
    std::cerr << import_table(imported, style_of(Stream::err).width) << '\n';
    tell_error(
        "nothing is written: " + std::to_string(imported.missing.size()) +
        " of what decides memory, batches, the mesh or the loss not found; Evenkeel's defaults would be "
        "used with --allow-missing");
    return failed;
  }
  if (options.output.empty()) {
    std::cout << imported.yaml;
    std::cerr << import_table(imported, style_of(Stream::err).width);
    return 0;
  }
  AtomicFile output(options.output);
  output.write(std::as_bytes(std::span(imported.yaml)));
  output.commit();
  std::cout << import_table(imported, style_of(Stream::out).width);
  return 0;
}

}  // namespace

void add_config_import_command(CLI::App& config, Action& chosen) {
  auto* command = config.add_subcommand(
      "import", "Turn a MindSpeed-RL, ROLL or verl configuration into an Evenkeel one, key by key");
  auto options = std::make_shared<Options>();
  command->add_option("FILE", options->file, "The foreign YAML file")->required();
  command
      ->add_option("--from", options->from,
                   "Whose it is, when its keys do not tell: mindspeed-rl, roll or verl")
      ->type_name("SYSTEM")
      ->transform(one_of({"mindspeed-rl", "roll", "verl"}));
  command->add_option("--output", options->output, "Write the configuration to this file")->type_name("FILE");
  command->add_flag(
      "--preset", options->preset,
      "Set balance.preset too: the foreign system's exact partitions instead of Evenkeel's planner");
  command
      ->add_option("--override", options->overrides,
                   "Lay these on the configuration, as the launch command does; ends at the next option")
      ->type_name("KEY=VALUE ...");
  command->add_flag("--allow-missing", options->allow_missing,
                    "Write the configuration although something that matters is not found");
  command->footer(footer);
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace evenkeel::cli
