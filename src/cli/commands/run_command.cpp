#include <spdlog/spdlog.h>

#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <iostream>
#include <memory>
#include <optional>

#include "base/activity.hpp"
#include "base/text_layout.hpp"
#include "cli/commands/commands.hpp"
#include "cli/failures.hpp"
#include "cli/job_watchdog.hpp"
#include "cli/launcher.hpp"
#include "cli/option_values.hpp"
#include "cli/prometheus_metrics.hpp"
#include "cli/rank_failures.hpp"
#include "cli/terminal/progress.hpp"
#include "cli/terminal/terminal.hpp"
#include "job/job.hpp"
#include "mesh/fail_together.hpp"
#include "source/arriving/patience.hpp"
#include "source/files/input_files.hpp"

namespace evenkeel::cli {
namespace {

struct RunOptions : JobSettings {
  ProgressStyle progress = ProgressStyle::automatic;
  std::string log_level = "info";
  bool log_all_ranks = false;
  PrometheusSettings prometheus;
};

/// Shows a job's progress on rank 0: log lines, a progress bar, and the report.
class JobDisplay final : public JobObserver {
 public:
  explicit JobDisplay(ProgressStyle style) : style_(style) {}

  /// Starts publishing metrics, on rank 0, before the run begins.
  void start_metrics(const PrometheusSettings& settings) {
    if (!settings.is_enabled()) return;
    metrics_.emplace(settings, EVENKEEL_VERSION);
    if (metrics_->port() != 0) spdlog::info("metrics at http://{}/metrics", shown_address(settings.address));
  }

  void on_reading(const std::filesystem::path& source) override {
    // Ignore errors here, since all ranks report them when they open the source.
    static_cast<void>(try_locally([&] {
      const std::string note = reading_note(source.string(), files_matching(source));
      if (!note.empty()) spdlog::info("{}", note);
    }));
  }
  void on_begin(std::optional<std::int64_t> samples, std::int64_t from,
                std::optional<std::int64_t> steps) override {
    spdlog::info("{}, {}", samples ? format_count(*samples, "sample") : "samples that arrive",
                 steps ? format_count(*steps, "step") : "in an unknown number of steps");
    const std::string left = steps ? ", " + format_count(*steps - from, "step") + " left" : std::string();
    if (from > 0) spdlog::info("resumes with step {}{}", from, left);
    progress_.emplace(style_, steps ? std::optional(*steps - from) : std::nullopt);
    if (metrics_ && steps) metrics_->set_planned_steps(*steps);
  }
  void on_pass(const StepFigures& figures) override {
    if (metrics_) metrics_->publish_pass(figures);
  }
  void on_warning(const std::string& text) override { spdlog::warn("{}", text); }
  void on_step_end(std::int64_t tokens) override { progress_->advance(tokens); }
  void on_last_step_end() override { progress_->finish(); }
  void on_end(const RunReport& report) override {
    if (metrics_ && report.arrivals) metrics_->publish_arrivals(*report.arrivals);
    std::cout << to_text(report, is_colored(Stream::out));
    StandardOutput::flush();
  }

 private:
  /// Returns the given address with the actual port, since the given port may be 0.
  [[nodiscard]] std::string shown_address(const std::string& given) const {
    return given.substr(0, given.rfind(':') + 1) + std::to_string(metrics_->port());
  }

  ProgressStyle style_;
  std::optional<Progress> progress_;
  std::optional<PrometheusMetrics> metrics_;
};

int run_job(const RunOptions& options, JobWatchdog& watchdog) {
  const boost::mpi::communicator world;
  JobDisplay shown(options.progress);
  // Declared outside the try block, so that the handler runs before ~Job. ~Job waits for the other ranks, but
  // a rank that fails on its own must abort them instead.
  std::optional<Job> job;
  try {
    watchdog.begin(world, options.overrides);
    watchdog.start_watching(world);
    Config config = convert_load_errors([&] { return read_config(world, options); });
    // Processes of the interrupted job may still be alive, so take over its buffer.
    if (options.state.resume && config.source.kind == SourceKind::stream) config.stream.take_over = true;
    const Phase phase("prepare the job");
    watchdog.apply_config(config);
    set_waiting_notes_destination([](const std::string& line) { spdlog::warn("{}", line); });
    set_up_logging(world.rank(), options.log_all_ranks, options.log_level);
    run_together(world, [&] {
      if (world.rank() == 0) shown.start_metrics(options.prometheus);
    });
    job.emplace(world, config, options, shown);
    job->run();
    return 0;
  } catch (...) {
    return report_failure(world);
  }
}

int run(const RunOptions& options) {
  JobWatchdog watchdog;  // outlives MPI, since MPI_Finalize may also wait forever for a rank
  // Always requests threads: before MPI is initialized, no rank knows whether the configuration prefetches.
  const boost::mpi::environment environment(boost::mpi::threading::multiple);
  if (report_launch_without_mpi(boost::mpi::communicator().size())) return finalize_mpi(wrong_use);
  const int status = run_job(options, watchdog);
  return finalize_mpi(status);
}

void add_output_options(CLI::App& command, const std::shared_ptr<RunOptions>& options) {
  command
      .add_option("--dump", options->dump,
                  "Write what every rank gets to this folder, as one safetensors file for each micro-batch")
      ->type_name("FOLDER");
  command
      .add_option("--report", options->report,
                  "Write the report to this folder, as text, JSON and a page with charts (report.html); "
                  "keeps a few KiB per step on rank 0")
      ->type_name("FOLDER");
  command
      .add_option("--results", options->results,
                  "Make the demonstration consumer hash every token, collect the hashes and write them to "
                  "this folder in source order, as one safetensors file for each step")
      ->type_name("FOLDER");
  command
      .add_option("--trace", options->trace,
                  "Write trace.json for Perfetto to this folder: every phase on every rank, and what ranks "
                  "sent to each other")
      ->type_name("FOLDER");
  command.add_flag("--overwrite", options->overwrite,
                   "Remove an earlier run's files from these folders, and nothing else");
}

void add_state_options(CLI::App& command, const std::shared_ptr<RunOptions>& options) {
  auto* state = command
                    .add_option("--state", options->state.folder,
                                "Keep the job's state in this folder, so that a later run can resume it")
                    ->type_name("FOLDER");
  command
      .add_option("--state-every", options->state.every,
                  "Write it after every this many steps, and at the end")
      ->type_name("COUNT")
      ->check(whole_number(1))
      ->needs(state);
  auto* resume =
      command.add_flag("--resume", options->state.resume,
                       "Resume from the state in that folder; start from the beginning if there is none");
  resume->needs(state);
  command
      .add_flag_function(
          "--accept-changes", [options](std::int64_t) { options->state.changed = ChangedJob::accepted; },
          "Resume even if configuration or sources differ from the state, and print the differences")
      ->needs(resume);
}

void add_prometheus_options(CLI::App& command, const std::shared_ptr<RunOptions>& options) {
  command
      .add_option(
          "--prometheus", options->prometheus.address,
          "Serve metrics to Prometheus at http://ADDRESS:PORT/metrics during the run, on rank 0's machine; "
          "ADDRESS is 127.0.0.1 unless another IPv4 address is given, and port 0 is any free one")
      ->type_name("[ADDRESS:]PORT")
      ->transform(listening_address());
  command
      .add_option(
          "--prometheus-file", options->prometheus.file,
          "Write the same metrics to this file after every step, for node_exporter's textfile collector")
      ->type_name("FILE.prom");
}

void add_profile_and_step_options(CLI::App& command, const std::shared_ptr<RunOptions>& options) {
  command
      .add_option("--profiles", options->profiles,
                  "Run each step's samples once for each profile, in this order, such as log_prob,update; "
                  "with several, --dump and --results have a folder for each")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--steps", options->max_steps,
                  "Stop after this many steps in total, including those before --resume")
      ->type_name("COUNT")
      ->check(whole_number(1));
}

void add_log_options(CLI::App& command, const std::shared_ptr<RunOptions>& options) {
  add_progress_option(command, options->progress);
  command.add_option("--log-level", options->log_level, "trace, debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->transform(one_of({"trace", "debug", "info", "warning", "error", "off"}));
  command.add_flag("--log-all-ranks", options->log_all_ranks,
                   "Log lines from every rank, not only from rank 0");
}

}  // namespace

std::string examples_of_program() {
  return "  evenkeel synth --samples 4096 --out rollouts.jsonl\n"
         "  evenkeel inspect rollouts.jsonl\n"
         "  evenkeel plan --lengths rollouts.jsonl --ranks 8 --set micro_batch.max_tokens=32k --compare\n"
         "  mpirun -n 8 evenkeel run configs/quickstart.yaml\n";
}

void add_run_command(CLI::App& app, Action& chosen) {
  auto* command =
      app.add_subcommand("run", "Run the main job: samples in, balanced, packed micro-batches on every rank");
  auto options = std::make_shared<RunOptions>();
  options->version = EVENKEEL_VERSION;
  command->add_option("CONFIG", options->config, "The job's configuration (see: evenkeel config schema)")
      ->required();
  command
      ->add_option("--set", options->overrides, "Override a key of the file, such as mesh.tp=2; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  add_output_options(*command, options);
  add_state_options(*command, options);
  add_profile_and_step_options(*command, options);
  add_prometheus_options(*command, options);
  add_log_options(*command, options);
  command->footer(
      "Start it under mpirun, with as many ranks as the mesh has (mesh.dp: auto uses all that remain).\n"
      "\n"
      "Examples:\n"
      "  mpirun -n 8 evenkeel run configs/quickstart.yaml\n"
      "  mpirun -n 8 evenkeel run configs/jsonl-rollouts.yaml --set source.path=rollouts.jsonl --report "
      "report\n"
      "  mpirun -n 8 evenkeel run job.yaml --state state --dump dump --resume\n"
      "  mpirun -n 4 evenkeel run job.yaml --set mesh.cp=2 --steps 1 --dump dump");
  command->callback([options, &chosen] {
    options->reports_passes = options->prometheus.is_enabled();
    chosen = [options] { return run(*options); };
  });
}

}  // namespace evenkeel::cli
