#include <CLI/CLI.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <csignal>
#include <exception>
#include <iostream>
#include <string>

#include "cli/commands.hpp"
#include "cli/logging.hpp"
#include "cli/standard_output.hpp"

namespace {

constexpr const char* about =
    "Evenkeel keeps every rank of an LLM training job on an even keel: it deals variable-length samples to\n"
    "data-parallel ranks by work, packs them into micro-batches that never break the memory cap, and hands "
    "each rank\n"
    "its context-parallel share of the tensors.";

constexpr const char* examples =
    "Examples:\n"
    "  mpirun -n 8 evenkeel run configs/quickstart.yaml\n"
    "  mpirun -n 8 evenkeel run job.yaml --set micro_batch.max_tokens=16384 --dump out/dump --report "
    "out/report\n"
    "  evenkeel plan --lengths lengths.csv --config job.yaml --ranks 64 --json plan.json\n"
    "  evenkeel synth --samples 4096 --out rollouts.jsonl\n"
    "  evenkeel inspect rollouts.jsonl\n"
    "  evenkeel config schema\n"
    "  evenkeel bench pack";

// Under a launcher every rank parses the same words. Rank 0 tells the user, and the others wait until it has:
// a launcher kills the rest of a job as soon as one rank fails.
int tell_once(const CLI::App& app, const CLI::ParseError& error) {
  if (!evenkeel::cli::launched()) return app.exit(error);
  const boost::mpi::environment environment;
  const boost::mpi::communicator world;
  if (world.rank() == 0) app.exit(error);
  world.barrier();
  return error.get_exit_code();
}

int run_program(int argc, char** argv) {
  using namespace evenkeel::cli;
  CLI::App app(about, "evenkeel");
  app.footer(examples);
  app.set_version_flag("--version", "evenkeel " EVENKEEL_VERSION);
  app.require_subcommand(1);
  Action chosen;
  add_run_command(app, chosen);
  add_plan_command(app, chosen);
  add_synth_command(app, chosen);
  add_inspect_command(app, chosen);
  add_config_command(app, chosen);
  add_bench_command(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return tell_once(app, error);
  }
  try {
    return chosen();
  } catch (const std::exception& error) {
    std::cerr << "evenkeel: error: " << error.what() << '\n';
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const evenkeel::cli::StandardOutput output;
  std::signal(SIGXFSZ, SIG_IGN);  // a file above the user's limit is then an error that names it
  return output.finish(run_program(argc, argv));
}
