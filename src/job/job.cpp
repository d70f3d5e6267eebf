#include "job/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/mpi/collectives.hpp>
#include <boost/mpi/operations.hpp>
#include <boost/serialization/string.hpp>
#include <boost/serialization/vector.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/activity.hpp"
#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "io/files/output_file.hpp"
#include "job/hash_consumer.hpp"
#include "job/output/dump.hpp"
#include "mesh/fail_together.hpp"
#include "plan/transfer/carried_fields.hpp"
#include "service/step_record.hpp"
#include "transport/gather_lists.hpp"

namespace evenkeel {
namespace {

/// Rejects a state folder that is also an output folder. Otherwise, the job would lock the folder twice, and
/// report its own first lock as a different run.
void require_separate_state_folder(const JobSettings& options) {
  const auto place_of = [](const std::filesystem::path& folder) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(folder)) / "";
  };
  for (const auto& [option, folder] : {std::pair{"--dump", options.dump},
                                       {"--results", options.results},
                                       {"--report", options.report},
                                       {"--trace", options.trace}}) {
    if (folder.empty() || options.state.folder.empty()) continue;
    if (place_of(folder).lexically_normal() != place_of(options.state.folder).lexically_normal()) continue;
    throw ConfigError("--state", "names the same folder as " + std::string(option),
                      "Give --state its own folder");
  }
}

bool reads_arriving_samples(const Config& config) {
  return config.sources.empty() && config.source.kind == SourceKind::stream;
}

// Rejects versions published by a trainer, since this program only has a demonstration consumer.
void reject_trainer_versions(const Config& config) {
  if (!reads_arriving_samples(config) || !config.stream.versions_by_trainer) return;
  throw ConfigError("stream.version", "is trainer, but evenkeel run has no trainer that publishes versions",
                    "Set stream.version: step");
}

// Rejects a field that is only for profiles that this run does not use, since it would be read but not sent
// to any rank.
void require_fields_are_sent(const Config& config, std::span<const std::string> passes) {
  for (const auto& [name, settings] : config.fields) {
    const std::vector<std::string>& profiles = settings.profiles;
    if (profiles.empty() || std::ranges::find_first_of(passes, profiles) != passes.end()) continue;
    throw ConfigError("fields." + name + ".profiles",
                      "does not name any of this run's profiles, so no rank would get the field",
                      "Name one with --profiles, or set it to all");
  }
}

// Rejects a dump of whole samples, since readers of a dump expect each CP rank's file to have only that
// rank's part of the samples.
void require_parts_are_dumped(const JobSettings& options, const Config& config,
                              std::span<const std::string> passes) {
  if (options.dump.empty() || (config.mesh.cp == 1 && !config.mesh.flexible_cp)) return;
  for (const std::string& pass : passes) {
    if (config.profile(pass).pack.deliver == Delivery::packed) continue;
    throw ConfigError("--dump",
                      "writes one part of each sample per context-parallel rank, but pack.deliver: samples "
                      "gives every rank the whole samples",
                      "Set pack.deliver: packed, or leave --dump out");
  }
}

// Returns the profiles of the passes over a step, or a single empty name for the job's own settings. Throws
// ConfigError if a profile occurs twice, since each pass writes to a folder named after its profile.
std::vector<std::string> require_distinct_passes(const JobSettings& options, const Config& config) {
  if (options.profiles.empty()) return {""};
  std::set<std::string> seen;
  for (const std::string& name : options.profiles) {
    if (name.empty())
      throw ConfigError("--profiles", "names an empty profile", "Write names separated by commas");
    if (!seen.insert(name).second) {
      throw ConfigError("--profiles", "names " + name + " twice",
                        "Passes are identified by their profiles: give the second pass its own profile");
    }
    static_cast<void>(config.profile(name));
  }
  return options.profiles;
}

std::vector<std::string> validate_and_list_passes(const JobSettings& options, const Config& config) {
  std::vector<std::string> passes = require_distinct_passes(options, config);
  require_fields_are_sent(config, passes);
  require_parts_are_dumped(options, config, passes);
  reject_trainer_versions(config);
  return passes;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw IoError(folder.string(), "cannot be created: " + failure.message(),
                  "Give --results a folder that rank 0 may write to");
}

/// Returns a source's name for the report. Only the synthetic kind has neither a path nor a name.
std::string source_name(const StreamSource& source) {
  if (!source.name.empty()) return source.name;
  return source.path.empty() ? "synthetic" : source.path;
}

// Opens the sources. Collective, since ranks scan a file together.
std::unique_ptr<SampleStream> open_stream(const boost::mpi::communicator& world, const Config& config,
                                          std::span<const std::string> profiles, JobObserver& observer) {
  const std::filesystem::path path =
      config.sources.empty() ? config.source.path : config.sources.begin()->second.path;
  if (world.rank() == 0 && !path.empty() && !reads_arriving_samples(config)) observer.on_reading(path);
  const Phase phase("open sources");
  return std::make_unique<SampleStream>(world, config, profiles);
}

}  // namespace

RunRecorder::RunRecorder(const Mesh& mesh, const Files& files)
    : mesh_(mesh), writes_metrics_(!files.metrics.empty()) {
  if (!files.trace.empty()) clock_.emplace(mesh.world());
  if (!writes_metrics_ && !clock_) return;
  run_together(mesh.world(), [&] {
    if (mesh.world().rank() != 0) return;
    if (writes_metrics_) metrics_.emplace(files.metrics, files.first_step);
    if (clock_) trace_.emplace(files.trace, mesh.grid());
  });
}

void RunRecorder::on_step_finished(const Step& step, const std::optional<StepFigures>& figures) {
  if (!writes_metrics_ && !clock_) return;
  std::vector<RankTrace> ranks;
  if (clock_) ranks = gather_trace(mesh_.world(), *clock_, times_, step);
  run_together(mesh_.world(), [&] {
    if (metrics_ && figures) metrics_->add(*figures);
    if (trace_) trace_->add(step.index, step.profile, ranks);
  });
}

void RunRecorder::close_files() {
  if (!writes_metrics_ && !clock_) return;
  run_together(mesh_.world(), [&] {
    if (metrics_) metrics_->close();
    if (trace_) trace_->close();
  });
}

// Every rank parses rank 0's text. Broadcasting the values instead would require a second list of all keys.
Config read_config(const boost::mpi::communicator& comm, const JobSettings& options) {
  const Phase phase("read the configuration");
  GuardedWork work;
  std::vector<std::string> texts;  // the overrides, then the file
  work([&] {
    if (comm.rank() != 0) return;
    require_separate_state_folder(options);
    texts = options.overrides;
    texts.push_back(read_config_text(options.config));
  });
  broadcast_value(Communicator(comm), texts, 0, work);
  Config config;
  work.run_on_replicated_data([&] {
    if (texts.empty()) return;  // rank 0 has failed and will report the reason
    const std::span overrides(texts.data(), texts.size() - 1);
    config = load_config(ConfigText{texts.back(), options.config.string()}, overrides);
  });
  work.agree(comm);
  return config;
}

Job::Job(const boost::mpi::communicator& world, const Config& config, const JobSettings& options,
         JobObserver& observer)
    : options_(options),
      observer_(observer),
      config_(config),
      profiles_(validate_and_list_passes(options, config_)),
      state_(world, options.state, config_, options.overwrite),
      // Accepts changed settings here. compare_with_saved_state() compares them later, together with the
      // sources, and refuses them if necessary.
      service_(world, config_, state_.initial_state(), ChangedJob::accepted),
      stream_(open_stream(world, config_, profiles_, observer)) {
  if (state_.is_kept()) compare_with_saved_state();
  steps_ = stream_->num_steps();
  if (options_.max_steps > 0) steps_ = std::min(steps_, options_.max_steps);
  // Write the state first, since only a job with this state may continue the output folders.
  if (!state_.is_resumed())
    state_.write_if_due(
        this->world(), 0, [this] { return state(); }, true);
  folders_.emplace(this->world(), output_request());
}

// Stops the wait of the stream's thread, since the samples may never arrive.
Job::~Job() {
  if (stream_) stream_->stop_waiting();
}

void Job::compare_with_saved_state() {
  run_together(world(), [&] { current_state_ = service_.state(); });
  stream_->describe(current_state_);
  fail_together(world(), try_on_replicated_data([&] { changes_ = state_.accept_changes(current_state_); }));
}

ServiceState Job::state() const {
  ServiceState state = service_.state();
  state.sources = current_state_.sources;
  state.order = current_state_.order;
  return state;
}

OutputRequest Job::output_request() const {
  OutputRequest request;
  if (!options_.dump.empty()) request.folders[RunOutput::dump] = options_.dump;
  if (!options_.results.empty()) request.folders[RunOutput::results] = options_.results;
  if (!options_.report.empty()) request.folders[RunOutput::report] = options_.report;
  if (!options_.trace.empty()) request.folders[RunOutput::trace] = options_.trace;
  request.overwrite = options_.overwrite;
  request.version = options_.version;
  request.configuration = fmt::format("{:016x}", fnv1a_64(to_yaml(config_)));
  if (options_.profiles.size() > 1)
    request.profiles.insert(options_.profiles.begin(), options_.profiles.end());
  request.passes.insert(profiles_.begin(), profiles_.end());
  request.job = state_.initial_state().job;
  request.first_step = state_.initial_state().next_step;
  return request;
}

void Job::run() {
  const Phase phase("between steps");
  report_.job = options_.config.string();
  report_.started = current_time_text();
  report_.mesh = {service_.mesh().grid().sizes(), config_.mesh.flexible_cp};
  report_.first_step = state_.initial_state().next_step;
  for (const StreamSource& source : stream_->sources())
    report_.sources.push_back({source_name(source), source.path, source.counts});
  report_.prefetch = config_.exchange.prefetch;
  report_.version = options_.version;
  if (folders_->has(RunOutput::report)) report_.keeps = RunReport::Steps::each;
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t begin = state_.initial_state().next_step;
  if (is_first_rank()) notify_begin();
  if (is_first_rank()) warn_about_input();
  start_recording();
  start_making_steps();
  const auto now = [this] { return state(); };
  std::int64_t reached = begin;  // first step that has not been delivered
  while (std::optional<Step> step = next()) {
    if (reached == begin) require_fields_of_settings(*step);
    reached = step->index + 1;
    const Phase using_it("use a step", step->index);
    if (reads_arriving_samples(config_) && (options_.reports_passes || folders_->has(RunOutput::report)))
      report_.arrivals = stream_->arrival_figures();
    const std::int64_t tokens = run_passes(std::move(*step));
    if (state_.write_if_due(world(), reached, now)) free_samples_before(reached);
    if (is_first_rank()) observer_.on_step_end(tokens);
  }
  if (state_.write_if_due(world(), reached, now, true)) free_samples_before(reached);
  if (is_first_rank()) observer_.on_last_step_end();
  const std::chrono::duration<double> mine = std::chrono::steady_clock::now() - start;
  {
    const Waiting waiting("MPI_Reduce");
    boost::mpi::reduce(world(), mine.count(), report_.seconds, boost::mpi::maximum<double>(), 0);
  }
  recorder_->close_files();
  if (config_.delay.is_on()) report_.delay = stream_->delay_figures();
  if (reads_arriving_samples(config_)) report_.arrivals = stream_->arrival_figures();
  write_report();
  folders_->complete(reached);
  run_together(world(), [&] {
    if (is_first_rank()) observer_.on_end(report_);
  });
}

void Job::notify_begin() const {
  const std::int64_t begin = state_.initial_state().next_step;
  const bool is_open = steps_ == SampleStream::unknown_num_steps;
  const std::optional<std::int64_t> steps = is_open ? std::nullopt : std::optional(std::max(begin, steps_));
  observer_.on_begin(reads_arriving_samples(config_) ? std::nullopt : std::optional(stream_->num_samples()),
                     begin, steps);
}

void Job::free_samples_before(std::int64_t step) {
  if (reads_arriving_samples(config_)) stream_->report_saved_before(step);
}

// Throws ConfigError if samples lack a field of the settings. A trainer might add a field to a later pass,
// but this job does not.
void Job::require_fields_of_settings(const Step& step) const {
  const std::span<const CarriedField> brought = step.record->samples->fields;
  fail_together(world(), try_on_replicated_data([&] {
                  for (const auto& [name, settings] : config_.fields) {
                    if (std::ranges::find(brought, name, &CarriedField::name) != brought.end()) continue;
                    throw ConfigError("fields." + name, "is not a field of any sample",
                                      "Check the name: evenkeel inspect lists the fields of a file");
                  }
                }));
}

void Job::warn_about_input() const {
  for (const StreamSource& source : stream_->sources()) {
    const std::string name = printable(source_name(source));
    if (!source.ignored_content.empty())
      observer_.on_warning(name + ": left out: " + printable(source.ignored_content));
    if (!source.undecided_fields.empty())
      observer_.on_warning(name + ": all prompts are empty, so these fields are read as one row per token: " +
                           printable(source.undecided_fields));
    if (const std::string filtered = describe_filter(source.counts); !filtered.empty())
      observer_.on_warning(name + ": " + filtered);
  }
  for (const std::string& change : changes_) observer_.on_warning("accepted: " + printable(change));
}

void Job::start_recording() {
  RunRecorder::Files files;
  files.first_step = state_.initial_state().next_step;
  if (folders_->has(RunOutput::report))
    files.metrics = folders_->path_of(RunOutput::report) / "metrics.jsonl";
  if (folders_->has(RunOutput::trace)) files.trace = folders_->path_of(RunOutput::trace) / "trace.json";
  recorder_.emplace(service_.mesh(), files);
  if (is_first_rank() && !files.trace.empty()) folders_->add_written_files(RunOutput::trace, 1);
}

std::optional<Step> Job::next() {
  const Phase phase("take a step");
  recorder_->on_pass_requested();
  std::optional<Step> step = upcoming_steps_->next();
  recorder_->on_pass_received(upcoming_steps_->in_background());
  return step;
}

void Job::start_making_steps() {
  const auto read = [this](std::int64_t step) { return stream_->read(step); };
  upcoming_steps_.emplace(service_.steps(read, steps_, profiles_[0]));
  if (is_first_rank() && config_.exchange.prefetch > 0 && !upcoming_steps_->in_background())
    observer_.on_warning("MPI does not support MPI_THREAD_MULTIPLE: no step is made ahead of the trainer");
}

std::int64_t Job::run_passes(Step step) {
  finish_pass(step);
  for (std::size_t p = 1; p < profiles_.size(); ++p) {
    recorder_->on_pass_requested();
    step = service_.step(std::move(step), profiles_[p]);
    recorder_->on_pass_received(false);
    finish_pass(step);
  }
  return step.num_tokens;
}

void Job::finish_pass(const Step& step) {
  const PlanSettings settings = service_.plan_settings(step.profile);
  if (folders_->has(RunOutput::dump)) {
    const Phase phase("dump", step.index);
    run_together(world(), [&] {
      dump_step(folder_of(RunOutput::dump, step), step,
                {service_.mesh().grid().sizes(), service_.mesh().here(), dump_form_of(settings),
                 folders_->num_dump_writers()});
    });
    folders_->add_written_files(RunOutput::dump, std::ssize(step.micro_batches));
  }
  if (folders_->has(RunOutput::results)) collect_results(step);
  const FiguresDetail detail =
      folders_->has(RunOutput::report) ? FiguresDetail::picture : FiguresDetail::totals;
  const Phase phase("gather figures", step.index);
  std::optional<StepFigures> figures = gather_figures(service_.mesh(), settings, step, detail);
  if (figures) figures->arrivals = report_.arrivals;
  recorder_->on_step_finished(step, figures);
  if (options_.reports_passes) {
    run_together(world(), [&] {
      if (figures) observer_.on_pass(*figures);
    });
  }
  if (figures) warn_about_loss(*figures);
  if (figures) report_.add(*std::move(figures));
}

// Issues each of the two warnings at most once per job, since the same warning may apply to many steps.
void Job::warn_about_loss(const StepFigures& figures) {
  const bool trains_nothing = figures.loss_tokens == 0;
  bool& has_warned = trains_nothing ? warned_of_steps_ : warned_of_samples_;
  const std::int64_t without = figures.without_loss + figures.left_out;
  if (has_warned || (without == 0 && !trains_nothing)) return;
  has_warned = true;
  const std::string step = "step " + std::to_string(figures.step) + ": ";
  const std::string advice = "; the report counts all such samples. See batch.without_loss";
  observer_.on_warning(trains_nothing ? step + "no token carries loss, so it trains nothing" + advice
                                      : step + format_count(without, "sample has", "samples have") +
                                            " no token that carries loss" + advice);
}

void Job::collect_results(const Step& step) {
  const Phase phase("collect results", step.index);
  const RaggedBatch all = service_.collect_on(step, hash_tokens(step), 0);
  run_together(world(), [&] {
    if (!is_first_rank()) return;
    const std::filesystem::path folder = folder_of(RunOutput::results, step);
    make_folder(folder);
    write_results(folder, step.index, all);
    folders_->add_written_files(RunOutput::results, 1);
  });
}

// Returns the folder for a step's output. If there are several passes, each pass has its own folder.
std::filesystem::path Job::folder_of(RunOutput output, const Step& step) const {
  const std::filesystem::path& folder = folders_->path_of(output);
  return profiles_.size() > 1 ? folder / step.profile : folder;
}

void Job::write_report() {
  if (!folders_->has(RunOutput::report)) return;
  const Phase phase("write the report");
  run_together(world(), [&] {
    if (!is_first_rank()) return;
    const std::filesystem::path& folder = folders_->path_of(RunOutput::report);
    write_text_file(folder / "report.txt", to_text(report_));
    write_text_file(folder / "report.json",
                    to_json(report_).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    write_text_file(folder / "report.html", to_html(report_));
    folders_->add_written_files(RunOutput::report, 4);
  });
}

}  // namespace evenkeel
