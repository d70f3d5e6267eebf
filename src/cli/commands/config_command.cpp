#include <iostream>

#include "cli/commands/commands.hpp"
#include "cli/failures.hpp"
#include "config/schema.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"

namespace evenkeel::cli {
namespace {

struct ShowOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
};

struct SchemaOptions {
  std::string key;
  bool markdown = false;
};

int print_schema(const SchemaOptions& options) {
  if (options.markdown && !options.key.empty())
    throw ConfigError("--markdown", "writes all keys, so it cannot be combined with the key " + options.key,
                      "Leave out one of them");
  std::cout << (options.markdown ? config_reference_markdown() : config_schema_text(options.key));
  return 0;
}

void add_schema_command(CLI::App& config, Action& chosen) {
  auto* command =
      config.add_subcommand("schema", "Print keys with their types, defaults, values and meanings");
  auto options = std::make_shared<SchemaOptions>();
  command->add_option("KEY", options->key, "A key or a section, such as micro_batch; all keys by default");
  command->add_flag("--markdown", options->markdown,
                    "Print all keys as the reference page docs/configuration.md");
  command->footer(
      "Examples:\n"
      "  evenkeel config schema\n"
      "  evenkeel config schema micro_batch\n"
      "  evenkeel config schema micro_batch.max_tokens");
  command->callback([options, &chosen] { chosen = [options] { return print_schema(*options); }; });
}

void add_show_command(CLI::App& config, Action& chosen) {
  auto* command =
      config.add_subcommand("show", "Check a configuration and print it with all defaults filled in");
  auto options = std::make_shared<ShowOptions>();
  command->add_option("CONFIG", options->config, "The job's configuration")->required();
  command->add_option("--set", options->overrides, "Override a key of the file; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->footer(
      "Example:\n"
      "  evenkeel config show configs/long-context.yaml --set mesh.cp=8 > job.yaml");
  command->callback([options, &chosen] {
    chosen = [options] {
      std::cout << to_yaml(
          convert_load_errors([&] { return load_config(options->config, options->overrides); }));
      return 0;
    };
  });
}

/// Adds a placeholder that refers to the command of the Python package.
void add_import_command(CLI::App& config, Action& chosen) {
  auto* command = config.add_subcommand(
      "import", "Is part of the Python package: python3 -m evenkeel.config_import, or evenkeel-import");
  command->prefix_command();
  command->callback([&chosen] {
    chosen = []() -> int {
      throw ConfigError("config import",
                        "is part of the Python package: run python3 -m evenkeel.config_import, or "
                        "evenkeel-import if pip installed it");
    };
  });
}

}  // namespace

void add_config_command(CLI::App& app, Action& chosen) {
  auto* config = app.add_subcommand(
      "config", "Describe the configuration's keys, or check a file and fill in its defaults");
  config->require_subcommand(1);
  add_schema_command(*config, chosen);
  add_show_command(*config, chosen);
  add_import_command(*config, chosen);
  config->footer(
      "Examples:\n"
      "  evenkeel config schema micro_batch.max_tokens\n"
      "  evenkeel config show job.yaml");
}

}  // namespace evenkeel::cli
