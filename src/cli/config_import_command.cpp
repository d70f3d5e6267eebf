#include <iostream>
#include <span>

#include "cli/commands.hpp"
#include "cli/option_values.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/io/atomic_file.hpp"
#include "evenkeel/service/config_file.hpp"
#include "evenkeel/service/config_import.hpp"

namespace evenkeel::cli {
namespace {

struct Options {
  std::filesystem::path file;
  std::filesystem::path output;
  std::string from;
  bool preset = false;
};

constexpr const char* footer =
    "The configuration goes to standard output and the table to standard error; with --output, the "
    "configuration goes to the file and the table to standard output. Keys that could not be used are "
    "listed with the reason: nothing is dropped in silence.\n\n"
    "Examples:\n"
    "  evenkeel config import grpo.yaml > evenkeel.yaml\n"
    "  evenkeel config import ppo_trainer.yaml --from verl --preset --output evenkeel.yaml";

int run(const Options& options) {
  ImportOptions import;
  import.from = foreign_system(options.from);
  import.preset = options.preset;
  const ImportedConfig imported =
      import_config(read_config_text(options.file), options.file.string(), import);
  if (options.output.empty()) {
    std::cout << imported.yaml;
    std::cerr << import_table(imported);
    return 0;
  }
  AtomicFile output(options.output);
  output.write(std::as_bytes(std::span(imported.yaml)));
  output.commit();
  std::cout << import_table(imported);
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
  command->footer(footer);
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace evenkeel::cli
