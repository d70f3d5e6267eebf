#include <CLI/CLI.hpp>
#include <optional>

#include "bench/commands.hpp"
#include "cli/command_line.hpp"
#include "cli/failures.hpp"
#include "cli/option_values.hpp"
#include "cli/terminal/terminal.hpp"

namespace {

int run_program(int argc, char** argv) {
  using namespace evenkeel;
  CLI::App app("Measures Evenkeel on this machine and prints Markdown tables.", "evenkeel-bench");
  app.set_help_flag("-h,--help", "Print this help");
  app.footer("Examples:\n  evenkeel-bench pack\n  mpirun -n 4 evenkeel-bench exchange --json exchange.json");
  app.require_subcommand(1);
  cli::Action chosen;
  bench::add_commands(app, chosen);
  cli::reject_options_as_values(app);
  if (const std::optional<int> status = cli::parse_command_line(app, argc, argv)) return *status;
  try {
    return chosen();
  } catch (...) {
    return cli::report_failure();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const evenkeel::cli::StandardOutput output;
  return output.finish(run_program(argc, argv));
}
