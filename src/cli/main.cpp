#include <CLI/CLI.hpp>
#include <csignal>
#include <optional>

#include "cli/command_line.hpp"
#include "cli/commands/commands.hpp"
#include "cli/failures.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/terminal.hpp"

namespace {

constexpr const char* about =
    "Evenkeel keeps every rank of an LLM training job on an even keel: it assigns variable-length samples "
    "to data-parallel ranks by work, packs them into micro-batches that never exceed the memory cap, and "
    "delivers each rank its context-parallel share of the tensors.";

constexpr const char* footer =
    "\n"
    "Every command has its own examples: evenkeel COMMAND --help.\n"
    "\n"
    "Where TOKENS are asked for, and where a key of the configuration is a number of tokens, 32k is 32768 "
    "and "
    "1M is 1048576.\n"
    "\n"
    "Exit status: 0 success; 1 the work failed; 2 the command line or the configuration is wrong.";

constexpr std::size_t help_column = 34;

int run_program(int argc, char** argv) {
  using namespace evenkeel::cli;
  CLI::App app(about, "evenkeel");
  app.get_formatter()->column_width(help_column);
  app.set_help_flag("-h,--help", "Print this help");
  app.footer("Examples:\n" + examples_of_program() + footer);
  app.set_version_flag("--version", "evenkeel " EVENKEEL_VERSION, "Print the version");
  app.require_subcommand(1);
  Action chosen;
  add_run_command(app, chosen);
  add_buffer_command(app, chosen);
  add_store_command(app, chosen);
  add_feed_command(app, chosen);
  add_plan_command(app, chosen);
  add_fit_command(app, chosen);
  add_synth_command(app, chosen);
  add_inspect_command(app, chosen);
  add_convert_command(app, chosen);
  add_config_command(app, chosen);
  reject_options_as_values(app);
  if (const std::optional<int> status = parse_command_line(app, argc, argv)) return *status;
  try {
    return chosen();
  } catch (...) {
    return report_failure();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const evenkeel::cli::StandardOutput output;
  // Ignore SIGXFSZ, so that exceeding the file size limit causes a write error that names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  return output.finish(run_program(argc, argv));
}
