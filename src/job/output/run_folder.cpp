#include "job/output/run_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/output_file.hpp"
#include "io/safetensors/tensor_file.hpp"
#include "source/dump/dump_schema.hpp"

namespace evenkeel {
namespace {

namespace fs = std::filesystem;

/// Removes an entry; removes a folder only if it is empty. Throws IoError if a file cannot be removed.
void remove_entry(const RunEntry& entry) {
  std::error_code failure;
  fs::remove(entry.path, failure);
  if (failure && entry.kind != RunEntry::Kind::folder)
    throw IoError(entry.path.string(), "cannot be removed: " + failure.message());
}

/// Removes the files of runs below a folder, and the folders that become empty.
void remove_run_entries(const fs::path& folder, const RunLayout& layout) {
  visit_run_entries(folder, layout, [](const RunEntry& entry) {
    remove_entry(entry);
    return true;
  });
}

/// Returns the output that a step's file belongs to. Results have names like step-000000.safetensors, and
/// files of a dump have names like mb-00000.safetensors.
RunOutput output_of(const RunEntry& entry) {
  return entry.path.filename().string().starts_with("mb-") ? RunOutput::dump : RunOutput::results;
}

std::string describe_passes(const std::set<std::string>& passes) {
  if (passes.empty() || passes == std::set<std::string>{""}) return "no --profiles";
  return fmt::format("--profiles {}", fmt::join(passes, ","));
}

/// Counts the files that a job's earlier runs have written to a dump, including files that no longer exist.
/// Each file records how many files its rank wrote in that step, and how many ranks wrote to the folder.
class KeptDump {
 public:
  void add(const fs::path& file, std::int64_t step) {
    const fs::path rank = file.parent_path();
    if (rank == last_rank_) return;
    last_rank_ = rank;
    fs::path pass = rank;  // in the end, the step's folder
    while (!is_step_folder(pass.filename().string())) pass = pass.parent_path();
    Step& of = steps_[{pass.parent_path(), step}];
    ++of.ranks;
    // All ranks of a grid have the same number of files, so the schema of one file is enough.
    if (of.ranks == 1 || of.schema.flexible) of.schema = schema_in(file);
    of.files += of.schema.micro_batches;
  }

  /// Returns the number of files. `steps` is the expected number of steps over all passes. A step without any
  /// file counts as one file, since its number of files is unknown. If groups have different sizes, a rank
  /// without files does not count, since it may not have written any.
  [[nodiscard]] std::int64_t count_files(std::int64_t steps) const {
    std::int64_t files = std::max<std::int64_t>(0, steps - std::ssize(steps_));
    for (const auto& [which, step] : steps_) {
      files += step.files;
      if (!step.schema.flexible)
        files += std::max<std::int64_t>(0, step.schema.writers - step.ranks) * step.schema.micro_batches;
    }
    return files;
  }

 private:
  struct Step {
    std::int64_t ranks = 0;
    std::int64_t files = 0;
    DumpSchema schema{};
  };

  /// Returns the schema in a file. If the file is damaged, returns a default schema, with which it counts as
  /// its rank's only file of the step; readers of the dump will report the damage.
  static DumpSchema schema_in(const fs::path& file) {
    try {
      return parse_dump_schema(TensorFile(file));
    } catch (const Error&) {
      return {};
    }
  }

  std::map<std::pair<fs::path, std::int64_t>, Step> steps_;
  fs::path last_rank_;
};

/// Returns the first file of a run, or an empty path if there is none. Throws IoError for an entry that a run
/// cannot have written. Entries after the first file are checked only if `look_at_all` is set.
fs::path first_run_file(const fs::path& folder, const RunLayout& layout, bool look_at_all) {
  fs::path first;
  visit_run_entries(folder, layout, [&](const RunEntry& entry) {
    if (entry.kind == RunEntry::Kind::foreign) {
      throw IoError(entry.path.string(), "has a name that a run uses, but was not made by a run",
                    "Move it away, or give another folder");
    }
    if (first.empty() && entry.kind == RunEntry::Kind::file) first = entry.path;
    return look_at_all || first.empty();
  });
  return first;
}

std::string describe_run(const RunIdentity& run) {
  return fmt::format("started {} on {}, process {}", run.started, run.host, run.pid);
}

/// Returns the marker of a folder that does not belong to this run, or nullopt if the marker is missing or
/// damaged.
std::optional<RunMarker> try_read_marker(const fs::path& folder) {
  try {
    return read_run_marker(folder);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

CreatedFolders::CreatedFolders(const fs::path& folder, const std::string& option) {
  std::error_code failure;
  for (fs::path path = folder; !path.empty() && !fs::exists(path, failure); path = path.parent_path())
    made_.insert(made_.begin(), path);
  failure.clear();
  fs::create_directories(folder, failure);
  if (!failure && !fs::is_directory(folder, failure) && !failure)
    failure = std::make_error_code(std::errc::not_a_directory);
  if (failure) {
    throw IoError(folder.string(), "cannot create the folder of " + option + ": " + failure.message(),
                  "Give a folder that every rank may write to");
  }
}

CreatedFolders::~CreatedFolders() {
  std::error_code ignored;
  std::for_each(made_.rbegin(), made_.rend(), [&](const fs::path& path) { fs::remove(path, ignored); });
}

RunFolder::RunFolder(const fs::path& folder, std::string option, const RunMarker& marker)
    : folder_(folder),
      option_(std::move(option)),
      marker_(marker),
      made_(folder_, option_),
      canonical_(fs::canonical(folder_)) {}

RunFolder::~RunFolder() {
  if (lock_ && begun_) undo();
}

bool RunFolder::lock() {
  try {
    if (auto lock = RunLock::try_acquire(folder_, marker_.by)) lock_.emplace(std::move(*lock));
  } catch (const IoError& error) {
    reject("cannot be used as the folder of " + option_ + ": " + RunLock::file_name + " " +
               error.report().message,
           "Give a folder that every rank may write to");
  }
  if (lock_) return true;
  const std::optional<RunIdentity> holder = read_lock_identity(folder_);
  if (holder && holder->run == marker_.by.run) {
    made_.keep();
    return false;
  }
  reject("another run is writing to it" + (holder ? " (" + describe_run(*holder) + ")" : std::string()),
         "Wait until it has ended, or give " + option_ + " another folder");
}

void RunFolder::read_earlier_marker() {
  try {
    earlier_marker_ = read_run_marker(folder_);
  } catch (const InputError&) {
    // A marker that is not a regular file was not written by a run and must not be removed.
    if (!fs::is_regular_file(fs::symlink_status(folder_ / RunMarker::file_name))) throw;
    damaged_ = true;
  }
  layout_ = marker_.layout();
  if (damaged_) layout_.outputs = {RunOutput::dump, RunOutput::results, RunOutput::report, RunOutput::trace};
  if (earlier_marker_) layout_.outputs.merge(earlier_marker_->layout().outputs);
  if (earlier_marker_) layout_.profiles.merge(earlier_marker_->layout().profiles);
}

void RunFolder::require_free(bool overwrite) {
  read_earlier_marker();
  require_no_other_inside();
  require_not_inside_another();
  const fs::path first = first_run_file(folder_, layout_, overwrite || continues_run());
  if (continues_run()) return require_same_passes();
  const bool complete = earlier_marker_ && earlier_marker_->state == RunMarker::State::complete;
  if (!overwrite && (damaged_ || complete || !first.empty())) reject_used_folder(first);
}

// Throws IoError if the job's earlier runs had different passes, since steps with different passes would be
// mixed.
void RunFolder::require_same_passes() const {
  if (marker_.first_step == 0 || earlier_marker_->passes == marker_.passes) return;
  for (const RunOutput output : {RunOutput::dump, RunOutput::results}) {
    if (!marker_.files.contains(output) || !earlier_marker_->files.contains(output)) continue;
    reject(fmt::format("has steps before {} of this job with {}, but this run would add steps with {}",
                       marker_.first_step, describe_passes(earlier_marker_->passes),
                       describe_passes(marker_.passes)),
           "Use the --profiles that the job began with, or give " + option_ + " another folder");
  }
}

void RunFolder::clear_and_mark_running() {
  if (earlier_marker_ && earlier_marker_->state == RunMarker::State::complete) {
    // Mark the earlier run as incomplete before the first of its files is removed.
    earlier_marker_->state = RunMarker::State::running;
    write_run_marker(folder_, *earlier_marker_);
  }
  remember_first_steps();
  continues_run() ? remove_replaced_and_count_kept() : remove_run_entries(folder_, layout_);
  begun_ = true;
  write_run_marker(folder_, marker_);
}

bool RunFolder::continues_run() const {
  return earlier_marker_ && !marker_.job.empty() && earlier_marker_->job == marker_.job;
}

// Records the first step of each output. Steps before it, which earlier runs did not write, do not count as
// missing.
void RunFolder::remember_first_steps() {
  for (const auto& [output, files] : marker_.files) {
    const bool goes_back = continues_run() && earlier_marker_->from.contains(output);
    marker_.from[output] =
        goes_back ? std::min(earlier_marker_->from.at(output), marker_.first_step) : marker_.first_step;
  }
}

void RunFolder::remove_replaced_and_count_kept() {
  KeptDump dump;
  visit_run_entries(folder_, layout_, [&](const RunEntry& entry) {
    // Metrics of earlier steps are kept in their file, to which this run appends.
    const bool is_of_all_runs = entry.path.filename() == RunLayout::metrics_name;
    if (is_of_all_runs) return true;
    const bool is_kept = entry.step.value_or(marker_.first_step) < marker_.first_step;
    if (is_kept && entry.kind == RunEntry::Kind::file) {
      if (output_of(entry) == RunOutput::dump) dump.add(entry.path, *entry.step);
    } else if (!is_kept || entry.kind == RunEntry::Kind::temporary) {
      remove_entry(entry);
    }
    return true;
  });
  const auto passes = std::max<std::int64_t>(1, std::ssize(marker_.profiles));
  const auto steps_before = [&](RunOutput output) {
    return marker_.from.contains(output) ? marker_.first_step - marker_.from.at(output) : 0;
  };
  kept_files_[RunOutput::results] = passes * steps_before(RunOutput::results);
  kept_files_[RunOutput::dump] = dump.count_files(passes * steps_before(RunOutput::dump));
}

void RunFolder::complete(std::int64_t steps, const std::map<RunOutput, std::int64_t>& files) {
  marker_.state = RunMarker::State::complete;
  marker_.steps = steps;
  marker_.ended = current_time_text();
  for (const auto& [output, count] : files) marker_.files[output] = count + kept_files_[output];
  write_run_marker(folder_, marker_);
  lock_.reset();
  made_.keep();
}

void RunFolder::reject(const std::string& why, const std::string& hint) const {
  throw IoError(folder_.string(), why, hint);
}

void RunFolder::reject_used_folder(const fs::path& first_file) const {
  const std::string hint = "Give " + option_ + " another folder, or --overwrite to remove that run's files";
  const std::string example =
      first_file.empty() ? "" : fmt::format("such as {}", first_file.lexically_relative(folder_).string());
  if (damaged_) reject(fmt::format("has a damaged {}", RunMarker::file_name), hint);
  if (!earlier_marker_) reject(fmt::format("has files of an earlier run, {}", example), hint);
  if (earlier_marker_->state == RunMarker::State::complete) {
    reject(fmt::format("holds an earlier run of {} ({}, complete {})",
                       format_plain_count(earlier_marker_->steps, "step"), describe_run(earlier_marker_->by),
                       earlier_marker_->ended),
           hint);
  }
  reject(fmt::format("holds the files of a run that did not finish ({}), {}",
                     describe_run(earlier_marker_->by), example),
         hint);
}

// Rejects the folder if it contains another run's output folder in place of a folder for one of its profiles.
void RunFolder::require_no_other_inside() const {
  for (const std::string& profile : layout_.profiles) {
    const fs::path inner = folder_ / profile;
    if (!is_name_taken(inner / RunMarker::file_name) && !is_name_taken(inner / RunLock::file_name)) continue;
    reject("would hold the files of profile " + profile + " in " + inner.string() +
               ", which is another run's folder",
           "Give " + option_ + " another folder");
  }
}

// Rejects a folder that belongs to the layout of a run in a parent folder.
void RunFolder::require_not_inside_another() const {
  for (fs::path above = canonical_.parent_path(); above != above.parent_path(); above = above.parent_path()) {
    if (!is_name_taken(above / RunMarker::file_name)) continue;
    const std::string within = (*canonical_.lexically_relative(above).begin()).string();
    const std::optional<RunMarker> other = try_read_marker(above);
    if (!is_step_folder(within) && !(other && other->profiles.contains(within))) continue;
    reject("is among the files of the run in " + above.string(), "Give " + option_ + " another folder");
  }
}

// Removes the marker and empty folders if the run has not written any file and does not continue a job. Best
// effort, since the error that ended the run matters more.
void RunFolder::undo() noexcept {
  try {
    if (continues_run()) return made_.keep();
    if (!first_run_file(folder_, layout_, true).empty()) {
      made_.keep();
      return;
    }
    remove_run_entries(folder_, layout_);
    fs::remove(folder_ / RunMarker::file_name);
  } catch (const std::exception&) {
    made_.keep();
  }
}

}  // namespace evenkeel
