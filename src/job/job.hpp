#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/mesh.hpp"
#include "evenkeel/service/data_service.hpp"
#include "evenkeel/source/sample_stream.hpp"
#include "job/job_state.hpp"
#include "job/output/output_folders.hpp"
#include "report/metrics_log.hpp"
#include "report/run_report.hpp"
#include "report/step_trace.hpp"

namespace evenkeel {

/// What is written about a run while it runs. Nothing is gathered or written that was not asked for.
class Watch {
 public:
  /// Paths are empty where nothing is to be written; equal on all ranks. Collective: opens the files, on rank
  /// 0, and aligns clocks for a trace. Throws on every rank.
  struct Files {
    std::filesystem::path metrics;  ///< metrics.jsonl
    std::int64_t first_step = 0;    ///< that this run makes: metrics of earlier ones stay
    std::filesystem::path trace;    ///< trace.json
  };
  Watch(const Mesh& mesh, const Files& files);

  /// The trainer asks for a pass, and gets it, made ahead or while it waited. Local.
  void asks() { times_.asked = std::chrono::steady_clock::now(); }
  void gets(bool made_ahead) {
    times_.handed = std::chrono::steady_clock::now();
    times_.made_ahead = made_ahead;
  }
  /// Records that the trainer has used the step. Only rank 0 has `figures`. Collective; throws on every rank.
  void finished(const Step& step, const std::optional<StepFigures>& figures);
  /// Closes the files. Collective; throws on every rank.
  void ends();

 private:
  const Mesh& mesh_;
  bool logs_;
  std::optional<CommonClock> clock_;
  std::optional<MetricsLog> metrics_;
  std::optional<TraceFile> trace_;
  TrainerTimes times_;
};

/// What a job is to do. Equal on all ranks.
struct JobSettings {
  std::filesystem::path config;        ///< read once, by rank 0: it may be a pipe
  std::vector<std::string> overrides;  ///< KEY=VALUE each
  std::filesystem::path dump;          ///< folders to write to; empty: not written
  std::filesystem::path report;
  std::filesystem::path results;
  std::filesystem::path trace;
  bool overwrite = false;  ///< remove an earlier run's files from them
  std::vector<std::string>
      profiles;                ///< passes over each step, in order; none: one, by the job's own settings
  std::int64_t max_steps = 0;  ///< the step to stop before, wherever the run begins; 0: none
  StateSettings state;
  std::string version;        ///< of the program, for the folders' markers
  bool tells_passes = false;  ///< the observer hears of each pass
};

/// Collective over `comm`: the configuration, which its first rank reads, once: it may be a pipe, which no
/// other rank could read, and nobody twice. The others get the result, so that all have the same even where
/// they see other files. Throws as load_config() does, and ConfigError for folders that cannot go together.
[[nodiscard]] Config read_config(const boost::mpi::communicator& comm, const JobSettings& options);

/// What rank 0's program hears of a job while it runs. Does nothing by itself.
class JobObserver {
 public:
  JobObserver() = default;
  JobObserver(const JobObserver&) = delete;
  JobObserver& operator=(const JobObserver&) = delete;
  virtual ~JobObserver() = default;

  virtual void begins_to_read(const std::filesystem::path& /*source*/) {}
  /// Steps of `from` to `steps` - 1 are to be made, of so many samples; neither is known of a stream that
  /// samples arrive in, unless steps are limited.
  virtual void begins(std::optional<std::int64_t> /*samples*/, std::int64_t /*from*/,
                      std::optional<std::int64_t> /*steps*/) {}
  virtual void warns(const std::string& /*text*/) {}
  /// A pass over a step is over; where the settings ask for it. May throw, which ends the job on every rank.
  virtual void passed(const StepFigures& /*figures*/) {}
  virtual void finished_step(std::int64_t /*tokens*/) {}
  virtual void finished_steps() {}
  /// May throw, which ends the job on every rank.
  virtual void ends_with(const RunReport& /*report*/) {}
};

/// One run of the main job: samples in, balanced, packed micro-batches on every rank, a demonstration
/// consumer that hashes tokens, and files of what was handed out. Collective; what goes wrong anywhere is
/// thrown on every rank.
class Job {
 public:
  /// Collective over `world`. `options` and `observer` must outlive the job. Throws as DataService,
  /// OutputFolders and open_source do.
  Job(const boost::mpi::communicator& world, const Config& config, const JobSettings& options,
      JobObserver& observer);

  /// Waits for no more samples.
  ~Job();

  void run();

 private:
  [[nodiscard]] const boost::mpi::communicator& world() const { return service_.mesh().world(); }
  [[nodiscard]] bool first() const { return world().rank() == 0; }
  void tell_beginning() const;
  /// What the user may have meant in another way.
  void warn_of_what_is_read_otherwise() const;
  void warn_of_loss(const StepFigures& figures);
  /// Collective. A name under `fields` that no sample brings would change nothing, unseen.
  void require_fields_of_settings(const Step& step) const;
  [[nodiscard]] OutputRequest output_request() const;
  /// Collective, where a state is kept: the job as it is now, which must be that of the state.
  void describe();
  [[nodiscard]] ServiceState state() const;
  void start_watching();
  void start_making_steps();
  [[nodiscard]] std::optional<Step> next();
  /// Collective: whoever keeps samples for the job may forget those of steps before this one.
  void free_samples_before(std::int64_t step);
  /// Returns the step's true tokens.
  [[nodiscard]] std::int64_t run_passes(Step step);
  void finish_pass(const Step& step);
  void bring_results_home(const Step& step);
  [[nodiscard]] std::filesystem::path folder_of(RunOutput output, const Step& step) const;
  void write_report();

  const JobSettings& options_;
  JobObserver& observer_;
  Config config_;
  std::vector<std::string> profiles_;
  JobState state_;
  DataService service_;
  std::unique_ptr<SampleStream> stream_;
  ServiceState described_;  // the job as its configuration and sources make it, before its first step here
  std::vector<std::string> changes_;  // since the state it goes on from
  std::optional<OutputFolders> folders_;
  std::int64_t steps_ = 0;
  RunReport report_;
  bool warned_of_steps_ = false;
  bool warned_of_samples_ = false;
  std::optional<Watch> watch_;
  std::optional<Steps> ahead_;  // last: its thread reads from the source
};

}  // namespace evenkeel
