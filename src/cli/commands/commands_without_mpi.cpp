#include <string>

#include "cli/commands/commands.hpp"
#include "cli/failures.hpp"
#include "cli/terminal/terminal.hpp"

// Placeholders for the commands that need MPI, in a program that was built without it. They print an error.
namespace evenkeel::cli {
namespace {

void add_missing_command(CLI::App& app, Action& chosen, const std::string& name) {
  auto* command = app.add_subcommand(name, "Not available, since this program was built without MPI");
  command->footer("");
  command->prefix_command();  // accepts all arguments of the missing command
  command->callback([name, &chosen] {
    chosen = [name] {
      print_error(name +
                  " needs MPI, and this program was built without it: configure with -DEVENKEEL_MPI=ON");
      return wrong_use;
    };
  });
}

}  // namespace

std::string examples_of_program() {
  return "  evenkeel synth --samples 4096 --out rollouts.jsonl\n"
         "  evenkeel plan --lengths rollouts.jsonl --ranks 8 --set micro_batch.max_tokens=32k --compare\n"
         "  evenkeel config show job.yaml --set micro_batch.max_tokens=64k\n";
}

void add_run_command(CLI::App& app, Action& chosen) {
  add_missing_command(app, chosen, "run");
}

void add_inspect_command(CLI::App& app, Action& chosen) {
  add_missing_command(app, chosen, "inspect");
}

void add_convert_command(CLI::App& app, Action& chosen) {
  add_missing_command(app, chosen, "convert");
}

void add_feed_command(CLI::App& app, Action& chosen) {
  add_missing_command(app, chosen, "feed");
}

}  // namespace evenkeel::cli
