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

/// Writes the metrics and the trace of a run while it is in progress. Gathers and writes only requested data.
class RunRecorder {
 public:
  /// The files to write, equal on all ranks. The path of a file that is not written is empty.
  struct Files {
    std::filesystem::path metrics;  ///< path of metrics.jsonl
    std::int64_t first_step = 0;    ///< first step of this run; metrics of earlier runs are kept
    std::filesystem::path trace;    ///< path of trace.json
  };
  /// Collective: opens the files on rank 0, and aligns clocks for a trace. Throws the same error on every
  /// rank.
  RunRecorder(const Mesh& mesh, const Files& files);

  /// The next two functions record when the trainer requests a pass and when it receives the pass.
  /// `made_ahead` specifies whether the pass was made ahead of time or while the trainer waited. Local.
  void on_pass_requested() { times_.asked = std::chrono::steady_clock::now(); }
  void on_pass_received(bool made_ahead) {
    times_.handed = std::chrono::steady_clock::now();
    times_.made_ahead = made_ahead;
  }
  /// Records that the trainer has used the step. Only rank 0 has `figures`. Collective. Throws the same error
  /// on every rank if a file cannot be written.
  void on_step_finished(const Step& step, const std::optional<StepFigures>& figures);
  /// Closes the files. Collective. Throws the same error on every rank if a file cannot be written.
  void close_files();

 private:
  const Mesh& mesh_;
  bool writes_metrics_;
  std::optional<CommonClock> clock_;
  std::optional<MetricsLog> metrics_;
  std::optional<TraceFile> trace_;
  TrainerTimes times_;
};

/// Settings of a job. They must be equal on all ranks.
struct JobSettings {
  std::filesystem::path config;        ///< read only once, by rank 0, since it may be a pipe
  std::vector<std::string> overrides;  ///< overrides of the configuration, of the form KEY=VALUE
  /// The next four members are output folders; a path is empty if that output is not written.
  std::filesystem::path dump;
  std::filesystem::path report;
  std::filesystem::path results;
  std::filesystem::path trace;
  bool overwrite = false;  ///< whether to remove the files of an earlier run from the folders
  /// Profiles of the passes over each step; empty for one pass with the job's own settings.
  std::vector<std::string> profiles;
  /// Number of the step to stop before, regardless of where the run begins; 0 for no limit.
  std::int64_t max_steps = 0;
  StateSettings state;
  std::string version;          ///< version of the program, for the markers of folders
  bool reports_passes = false;  ///< whether to call JobObserver::on_pass
};

/// Reads the configuration on the first rank of `comm` and broadcasts it. The file is read once, since it may
/// be a pipe, and all ranks get the same configuration even if they see different files. Collective over
/// `comm`. Throws the same error on every rank: IoError if the file cannot be read, and ConfigError for an
/// invalid configuration or folders that cannot be combined.
[[nodiscard]] Config read_config(const boost::mpi::communicator& comm, const JobSettings& options);

/// Callbacks that inform rank 0's program about the progress of a job. The defaults do nothing.
class JobObserver {
 public:
  JobObserver() = default;
  JobObserver(const JobObserver&) = delete;
  JobObserver& operator=(const JobObserver&) = delete;
  virtual ~JobObserver() = default;

  virtual void on_reading(const std::filesystem::path& /*source*/) {}
  /// Called before steps `from` to `steps` - 1 are made. `samples` is the number of samples. If samples
  /// arrive in a stream, `samples` is nullopt, and `steps` is also nullopt unless the number of steps is
  /// limited.
  virtual void on_begin(std::optional<std::int64_t> /*samples*/, std::int64_t /*from*/,
                        std::optional<std::int64_t> /*steps*/) {}
  virtual void on_warning(const std::string& /*text*/) {}
  /// Called after each pass over a step, if JobSettings::reports_passes is set. May throw, which ends the job
  /// on every rank.
  virtual void on_pass(const StepFigures& /*figures*/) {}
  virtual void on_step_end(std::int64_t /*tokens*/) {}
  virtual void on_last_step_end() {}
  /// May throw, which ends the job on every rank.
  virtual void on_end(const RunReport& /*report*/) {}
};

/// One run of a job: reads samples, makes balanced, packed micro-batches on every rank, passes them to a
/// demonstration consumer that hashes tokens, and writes the requested files. Collective; if an error occurs
/// on any rank, every rank throws it.
class Job {
 public:
  /// Collective over `world`. `options` and `observer` must outlive the job. Throws the same error on every
  /// rank if the settings, the sources, the saved state or an output folder cannot be used.
  Job(const boost::mpi::communicator& world, const Config& config, const JobSettings& options,
      JobObserver& observer);

  /// Makes the stream stop waiting for samples, which may never arrive. This lets the stream's thread end.
  ~Job();

  void run();

 private:
  [[nodiscard]] const boost::mpi::communicator& world() const { return service_.mesh().world(); }
  [[nodiscard]] bool is_first_rank() const { return world().rank() == 0; }
  void notify_begin() const;
  /// Warns about ignored fields, fields with a guessed kind, samples that the filter drops or changes, and
  /// accepted changes of the job.
  void warn_about_input() const;
  void warn_about_loss(const StepFigures& figures);
  /// Collective. Throws ConfigError for a name under `fields` that no sample has, since its settings would
  /// have no effect.
  void require_fields_of_settings(const Step& step) const;
  [[nodiscard]] OutputRequest output_request() const;
  /// Collective; called only if a state is kept. Sets `current_state_` and `changes_`. Throws ConfigError on
  /// every rank if the job differs from the saved state and changes are refused.
  void compare_with_saved_state();
  [[nodiscard]] ServiceState state() const;
  void start_recording();
  void start_making_steps();
  [[nodiscard]] std::optional<Step> next();
  /// Collective. Permits the buffer of a stream to delete the samples of steps before `step`.
  void free_samples_before(std::int64_t step);
  /// Runs all passes over a step. Returns the number of the step's tokens that are not padding.
  [[nodiscard]] std::int64_t run_passes(Step step);
  void finish_pass(const Step& step);
  void collect_results(const Step& step);
  [[nodiscard]] std::filesystem::path folder_of(RunOutput output, const Step& step) const;
  void write_report();

  const JobSettings& options_;
  JobObserver& observer_;
  Config config_;
  std::vector<std::string> profiles_;
  JobState state_;
  DataService service_;
  std::unique_ptr<SampleStream> stream_;
  ServiceState
      current_state_;  // state before this run's first step, with this job's configuration and sources
  std::vector<std::string> changes_;  // differences from the state from which the job resumes
  std::optional<OutputFolders> folders_;
  std::int64_t steps_ = 0;
  RunReport report_;
  bool warned_of_steps_ = false;
  bool warned_of_samples_ = false;
  std::optional<RunRecorder> recorder_;
  std::optional<Steps>
      upcoming_steps_;  // declared last, so that its thread, which reads from `stream_`, ends first
};

}  // namespace evenkeel
