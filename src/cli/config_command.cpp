#include <iostream>

#include "cli/commands.hpp"
#include "evenkeel/service/config_file.hpp"
#include "evenkeel/service/config_schema.hpp"

namespace evenkeel::cli {
namespace {

struct ShowOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
};

void add_schema_command(CLI::App& config, Action& chosen) {
  auto* command =
      config.add_subcommand("schema", "Print every key with its type, default, values and meaning");
  auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "As the reference page docs/configuration.md");
  command->callback([markdown, &chosen] {
    chosen = [markdown] {
      std::cout << (*markdown ? config_reference_markdown() : config_schema_text());
      return 0;
    };
  });
}

void add_show_command(CLI::App& config, Action& chosen) {
  auto* command =
      config.add_subcommand("show", "Check a configuration and print it with all defaults filled in");
  auto options = std::make_shared<ShowOptions>();
  command->add_option("CONFIG", options->config, "The job's configuration")->required();
  command->add_option("--set", options->overrides, "KEY=VALUE that overrides the file; repeatable")
      ->allow_extra_args(false);
  command->callback([options, &chosen] {
    chosen = [options] {
      std::cout << to_yaml(load_config(options->config, options->overrides));
      return 0;
    };
  });
}

}  // namespace

void add_config_command(CLI::App& app, Action& chosen) {
  auto* config = app.add_subcommand(
      "config", "The configuration: its keys, one file checked and filled in, or another system's imported");
  config->require_subcommand(1);
  add_schema_command(*config, chosen);
  add_show_command(*config, chosen);
  add_config_import_command(*config, chosen);
}

}  // namespace evenkeel::cli
