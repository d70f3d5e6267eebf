#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/mpi/collectives.hpp>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/environment.hpp>
#include <boost/mpi/operations.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "cli/commands.hpp"
#include "cli/logging.hpp"
#include "cli/option_values.hpp"
#include "cli/output_folders.hpp"
#include "cli/progress.hpp"
#include "cli/rank_failures.hpp"
#include "cli/slow_work.hpp"
#include "cli/standard_output.hpp"
#include "cli/terminal.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/base/hash.hpp"
#include "evenkeel/base/printable.hpp"
#include "evenkeel/config/file.hpp"
#include "evenkeel/config/serialization.hpp"
#include "evenkeel/io/atomic_file.hpp"
#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/plan/batch_schedule.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/service/dump.hpp"
#include "evenkeel/service/hash_consumer.hpp"
#include "evenkeel/service/prefetcher.hpp"
#include "evenkeel/service/run_report.hpp"
#include "evenkeel/service/sample_source.hpp"

namespace evenkeel::cli {
namespace {

struct RunOptions {
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::filesystem::path dump;
  std::filesystem::path report;
  std::filesystem::path results;
  bool overwrite = false;
  std::vector<std::string> profiles;
  std::int64_t max_steps = 0;
  ProgressStyle progress = ProgressStyle::automatic;
  std::string log_level = "info";
  bool log_all_ranks = false;
};

// Rank 0 reads the file, once: it may be a pipe, which no other rank could read, and nobody twice. The others
// get the result, so that all have the same even where they see other files.
Config read_config(const boost::mpi::communicator& world, const RunOptions& options) {
  Config config;
  together(world, [&] {
    if (world.rank() == 0) config = load_config(options.config, options.overrides);
  });
  boost::mpi::broadcast(world, config, 0);
  return config;
}

// Several passes write to a folder each, named like the profile.
std::vector<std::string> passes_of(const RunOptions& options, const Config& config) {
  if (options.profiles.empty()) return {""};
  std::set<std::string> seen;
  for (const std::string& name : options.profiles) {
    if (name.empty())
      throw ConfigError("--profiles", "names an empty profile", "Write names, commas between them");
    if (!seen.insert(name).second) {
      throw ConfigError("--profiles", "names " + name + " twice",
                        "Passes are told apart by their profiles: give the second one a profile of its own");
    }
    static_cast<void>(config.profile(name));
  }
  return options.profiles;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) throw IoError(folder.string(), "cannot be made: " + failure.message());
}

OutputRequest output_request(const RunOptions& options, const Config& config) {
  OutputRequest request;
  if (!options.dump.empty()) request.folders[RunOutput::dump] = options.dump;
  if (!options.results.empty()) request.folders[RunOutput::results] = options.results;
  if (!options.report.empty()) request.folders[RunOutput::report] = options.report;
  request.overwrite = options.overwrite;
  request.configuration = fmt::format("{:016x}", fnv1a_64(to_yaml(config)));
  if (options.profiles.size() > 1) request.profiles.insert(options.profiles.begin(), options.profiles.end());
  return request;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

// Ranks scan a file together, and rank 0 says so when that takes long.
std::unique_ptr<SampleSource> open_slowly(const boost::mpi::communicator& world, const Config& config) {
  std::optional<SlowWork> slow;
  if (world.rank() == 0 && !config.source.path.empty())
    slow.emplace(reading(config.source.path), [](const std::string& text) { spdlog::info("{}", text); });
  return open_source(world, config.source, longest_sample(config));
}

/// One run of the main job.
class Job {
 public:
  Job(const boost::mpi::communicator& world, const RunOptions& options)
      : options_(options),
        config_(read_config(world, options)),
        profiles_(passes_of(options, config_)),
        service_(world, config_),
        folders_(service_.mesh().world(), output_request(options, config_)),
        source_(open_slowly(service_.mesh().world(), config_)),
        schedule_(source_->num_samples(), config_.batch),
        steps_(options.max_steps > 0 ? std::min(options.max_steps, schedule_.num_steps())
                                     : schedule_.num_steps()) {}

  void run() {
    report_.mesh = service_.mesh().grid().sizes();
    if (folders_.have(RunOutput::report)) report_.keeps = RunReport::Steps::each;
    const auto start = std::chrono::steady_clock::now();
    if (first()) spdlog::info("{}, {}", counted(source_->num_samples(), "sample"), counted(steps_, "step"));
    if (const std::string left_out = source_->left_out(); first() && !left_out.empty())
      spdlog::warn("{}: left out: {}", printable(config_.source.path.string()), printable(left_out));
    start_prefetching();
    Progress progress(first() ? options_.progress : ProgressStyle::off, steps_);
    while (std::optional<Step> step = prefetcher_->next()) progress.advance(run_passes(std::move(*step)));
    progress.finish();
    const std::chrono::duration<double> mine = std::chrono::steady_clock::now() - start;
    boost::mpi::reduce(world(), mine.count(), report_.seconds, boost::mpi::maximum<double>(), 0);
    write_report();
    folders_.complete(steps_);
    print_report();
  }

 private:
  [[nodiscard]] const boost::mpi::communicator& world() const { return service_.mesh().world(); }
  [[nodiscard]] bool first() const { return world().rank() == 0; }

  void start_prefetching() {
    const auto read = [this, rank = world().rank(), ranks = world().size()](std::int64_t step) {
      return source_->read(schedule_.share_of(step, rank, ranks));
    };
    prefetcher_.emplace(world(), config_, steps_, read, profiles_[0]);
    if (first() && config_.exchange.prefetch > 0 && !prefetcher_->in_background())
      spdlog::warn("MPI gives no MPI_THREAD_MULTIPLE: no step is made ahead of the trainer");
  }

  // Returns the step's true tokens.
  std::int64_t run_passes(Step step) {
    finish_pass(step);
    for (std::size_t p = 1; p < profiles_.size(); ++p) {
      step = service_.step(std::move(step), profiles_[p]);
      finish_pass(step);
    }
    return step.table.num_tokens();
  }

  void finish_pass(const Step& step) {
    if (folders_.have(RunOutput::dump)) {
      together(world(), [&] { dump_step(folder_of(RunOutput::dump, step), step, service_.mesh().here()); });
      folders_.wrote(RunOutput::dump, std::ssize(step.micro_batches));
    }
    if (folders_.have(RunOutput::results)) bring_results_home(step);
    const PlanSettings settings = service_.plan_settings(step.profile);
    if (const auto figures = gather_figures(service_.mesh(), settings, step)) report_.add(*figures);
  }

  void bring_results_home(const Step& step) {
    const RaggedBatch mine = service_.collect(step, hash_tokens(step));
    const RaggedBatch all =
        gather_samples(world(), mine, 0, {config_.exchange.path, default_max_message_bytes});
    together(world(), [&] {
      if (!first()) return;
      const std::filesystem::path folder = folder_of(RunOutput::results, step);
      make_folder(folder);
      write_results(folder, step.index, all);
      folders_.wrote(RunOutput::results, 1);
    });
  }

  // Several passes over a step write to a folder each.
  [[nodiscard]] std::filesystem::path folder_of(RunOutput output, const Step& step) const {
    const std::filesystem::path& folder = folders_.path_of(output);
    return profiles_.size() > 1 ? folder / step.profile : folder;
  }

  void write_report() {
    if (!folders_.have(RunOutput::report)) return;
    together(world(), [&] {
      if (!first()) return;
      const std::filesystem::path& folder = folders_.path_of(RunOutput::report);
      write_text(folder / "report.txt", to_text(report_));
      write_text(folder / "report.json", to_json(report_).dump(2) + "\n");
      folders_.wrote(RunOutput::report, 2);
    });
  }

  void print_report() {
    together(world(), [&] {
      if (!first()) return;
      std::cout << to_text(report_, style_of(Stream::out));
      StandardOutput::flush();
    });
  }

  const RunOptions& options_;
  Config config_;
  std::vector<std::string> profiles_;
  DataService service_;
  OutputFolders folders_;
  std::unique_ptr<SampleSource> source_;
  BatchSchedule schedule_;
  std::int64_t steps_;
  RunReport report_;
  std::optional<Prefetcher> prefetcher_;  // last: its thread reads from the source
};

int run(const RunOptions& options) {
  // Before MPI is up, no rank knows what the configuration says of prefetching.
  const boost::mpi::environment environment(boost::mpi::threading::multiple);
  const boost::mpi::communicator world;
  set_up_logging(world.rank(), options.log_all_ranks, options.log_level);
  // Outlives the handler: its end waits for the other ranks, which a rank that fails alone aborts instead.
  std::optional<Job> job;
  try {
    job.emplace(world, options);
    job->run();
    return 0;
  } catch (...) {
    return tell_failure(world);
  }
}

ProgressStyle progress_style(const std::string& word) {
  if (word == "bar") return ProgressStyle::bar;
  if (word == "lines") return ProgressStyle::lines;
  return word == "off" ? ProgressStyle::off : ProgressStyle::automatic;
}

}  // namespace

void add_run_command(CLI::App& app, Action& chosen) {
  auto* command =
      app.add_subcommand("run", "Run the main job: samples in, balanced, packed micro-batches on every rank");
  auto options = std::make_shared<RunOptions>();
  command->add_option("CONFIG", options->config, "The job's configuration (see: evenkeel config schema)")
      ->required();
  command
      ->add_option("--set", options->overrides, "Override a key of the file, such as mesh.tp=2; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  const CLI::Validator folder([](const std::string& name) { return name.empty() ? "needs a folder" : ""; },
                              "");
  command
      ->add_option("--dump", options->dump,
                   "Write what every rank was handed to this folder, as safetensors a micro-batch")
      ->type_name("FOLDER")
      ->check(folder);
  command
      ->add_option("--report", options->report,
                   "Write report.txt and report.json to this folder; keeps some KiB a step on rank 0")
      ->type_name("FOLDER")
      ->check(folder);
  command
      ->add_option("--results", options->results,
                   "Let the demonstration consumer hash every token, bring the hashes home and write them to "
                   "this folder in source order, as safetensors a step")
      ->type_name("FOLDER")
      ->check(folder);
  command->add_flag("--overwrite", options->overwrite,
                    "Where these folders hold an earlier run's files, remove those, and nothing else");
  command
      ->add_option(
          "--profiles", options->profiles,
          "Pass over each step's samples once a profile, in this order, such as log_prob,update; with "
          "several, --dump and --results get a folder each")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--steps", options->max_steps, "Stop after this many steps")
      ->type_name("COUNT")
      ->check(whole_number(1));
  command
      ->add_option_function<std::string>(
          "--progress", [options](const std::string& word) { options->progress = progress_style(word); },
          "auto (a bar on a terminal, else lines), bar, lines or off")
      ->type_name("STYLE")
      ->transform(one_of({"auto", "bar", "lines", "off"}));
  command->add_option("--log-level", options->log_level, "trace, debug, info, warning, error or off")
      ->type_name("LEVEL")
      ->transform(one_of({"trace", "debug", "info", "warning", "error", "off"}));
  command->add_flag("--log-all-ranks", options->log_all_ranks,
                    "Log lines from every rank, not from rank 0 only");
  command->footer(
      "Start it under mpirun, with as many ranks as the mesh has (mesh.dp: auto takes what remains).\n"
      "\n"
      "Examples:\n"
      "  mpirun -n 8 evenkeel run configs/quickstart.yaml\n"
      "  mpirun -n 8 evenkeel run configs/jsonl-rollouts.yaml --set source.path=rollouts.jsonl --report "
      "report\n"
      "  mpirun -n 4 evenkeel run job.yaml --set mesh.cp=2 --steps 1 --dump dump");
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace evenkeel::cli
