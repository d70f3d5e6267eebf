#include <spdlog/spdlog.h>

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/text_layout.hpp"
#include "cli/commands/commands.hpp"
#include "cli/failures.hpp"
#include "cli/job_watchdog.hpp"
#include "cli/option_values.hpp"
#include "cli/rank_failures.hpp"
#include "cli/terminal/logging.hpp"
#include "cli/terminal/terminal.hpp"
#include "data_ranks/data_line.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/data_ranks/serve.hpp"

namespace evenkeel::cli {
namespace {

struct ServeOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::int64_t steps = SampleStream::all_steps;
  std::string log_level = "info";
};

// Every data rank reads the configuration itself: the other ranks of the world run another program, and there
// is nobody to read for all before they have met.
int serve_trainers(const ServeOptions& options) {
  JobWatchdog watchdog;  // outlives MPI
  const boost::mpi::environment environment(boost::mpi::threading::multiple);
  const boost::mpi::communicator world;
  set_up_logging(world.rank(), false, options.log_level);
  Config config;
  try {
    config = loaded([&] { return load_config(options.config, options.overrides); });
  } catch (const Error& error) {
    // The trainers wait for this rank, whatever they do. Where the first data rank fails too, it has told and
    // ended the job before another one says the same.
    if (world.rank() > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    tell_error(error.what());
    boost::mpi::environment::abort(status_of(error));
  }
  try {
    // Not sooner: a trainer of another kind may take its time.
    DataLine::lay(world, config, [&] {
      watchdog.begin(world, options.overrides);
      watchdog.meet(world);
      if (!watchdog.failure()) watchdog.settle(config);  // else the trainers tell, unless they go without
    });
    const ServedSamples served = serve(world, config, options.steps);
    spdlog::info("read {} in {} on this data rank of {}", counted(served.samples, "sample"),
                 counted(served.steps, "step"), config.mesh.data_ranks);
    return 0;
  } catch (...) {
    // What trainers do after an error that all ranks throw is theirs.
    return tell_failure_beside_others(world);
  }
}

}  // namespace

void add_serve_command(CLI::App& app, Action& chosen) {
  auto* command = app.add_subcommand(
      "serve", "Run the data ranks of a job: read, filter, plan and send, while other ranks train");
  auto options = std::make_shared<ServeOptions>();
  command->add_option("CONFIG", options->config, "The job's configuration, the same as the trainers'")
      ->required();
  command
      ->add_option("--set", options->overrides,
                   "Override a key of the file, such as mesh.data_ranks=2; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--steps", options->steps,
                   "End the data after this many steps in total, and with it a trainer that reads to the end")
      ->type_name("COUNT")
      ->check(whole_number(1));
  command->add_option("--log-level", options->log_level, "trace, debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->transform(one_of({"trace", "debug", "info", "warning", "error", "off"}));
  command->footer(
      "Start it under mpirun on the first mesh.data_ranks ranks, and the trainer on the others. It ends with "
      "the trainer.\n"
      "\n"
      "Examples:\n"
      "  mpirun -n 2 evenkeel serve job.yaml : -n 8 trainer job.yaml\n"
      "  mpirun -n 2 evenkeel serve configs/dedicated.yaml : -n 4 evenkeel run configs/dedicated.yaml");
  command->callback([options, &chosen] { chosen = [options] { return serve_trainers(*options); }; });
}

}  // namespace evenkeel::cli
