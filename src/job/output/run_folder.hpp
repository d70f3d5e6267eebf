#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/output/run_lock.hpp"
#include "job/output/run_marker.hpp"

namespace evenkeel {

/// Folders that did not exist and were created. The destructor removes the folders that are still empty,
/// unless keep() was called.
class CreatedFolders {
 public:
  /// Creates `folder` and its missing parents. Throws IoError naming the option that contained the folder.
  CreatedFolders(const std::filesystem::path& folder, const std::string& option);
  CreatedFolders(const CreatedFolders&) = delete;
  CreatedFolders& operator=(const CreatedFolders&) = delete;
  ~CreatedFolders();

  void keep() noexcept { made_.clear(); }

 private:
  std::vector<std::filesystem::path> made_;  // created folders, outermost first
};

/// An output folder that one run owns while it writes files. The folder is locked and marked as running, and
/// finally marked as complete. One process owns it on behalf of all ranks that see the folder. All functions
/// are local.
///
/// A folder contains the files of only one run. If it contains another run's files, either the folder is
/// refused, or exactly these files are removed.
///
/// If this object is destroyed before complete(), the folder stays marked as running if the run wrote a file
/// or continues a job; otherwise, its marker and the folders created for it are removed.
class RunFolder {
 public:
  /// Creates the folder if it does not exist. Throws IoError if that fails. `option` is the name of the
  /// command-line option, such as --dump, for error messages.
  RunFolder(const std::filesystem::path& folder, std::string option, const RunMarker& marker);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  /// Locks the folder. Returns false if another process of the same run, on a different node, has the lock.
  /// Throws IoError if another run has it, or if the lock file cannot be written.
  [[nodiscard]] bool lock();
  /// Returns false if the file system does not support locks.
  [[nodiscard]] bool blocks_other_runs() const noexcept { return lock_ && lock_->blocks_other_runs(); }

  /// Adds an output that the run writes to this folder.
  void add(RunOutput output) { marker_.files[output] = 0; }
  /// Throws IoError if the folder contains another run's files, unless `overwrite` is set. Regardless of
  /// `overwrite`, throws IoError for an entry that has a name of the layout but was not written by a run
  /// (RunEntry::Kind::foreign), and if the folder is inside another run's layout or contains another run's
  /// folder. Accepts files of the job that this run continues, unless they belong to other passes. Does not
  /// change anything. Call this after the last add().
  void require_free(bool overwrite);
  /// Removes an earlier run's files, which require_free() has accepted, and marks the folder as running. If
  /// this run continues a job, removes only the files of its first and later steps, and leftovers of
  /// interrupted writes.
  void clear_and_mark_running();
  /// Marks the folder as complete and unlocks it. `files` has the number of files that this run wrote, by
  /// output.
  void complete(std::int64_t steps, const std::map<RunOutput, std::int64_t>& files);

  [[nodiscard]] const std::string& option() const noexcept { return option_; }
  /// Returns the absolute path without symbolic links.
  [[nodiscard]] const std::filesystem::path& canonical_path() const noexcept { return canonical_; }

 private:
  [[noreturn]] void reject(const std::string& why, const std::string& hint) const;
  [[noreturn]] void reject_used_folder(const std::filesystem::path& first_file) const;
  void require_same_passes() const;
  void require_no_other_inside() const;
  void require_not_inside_another() const;
  [[nodiscard]] bool continues_run() const;
  void remember_first_steps();
  void remove_replaced_and_count_kept();
  void read_earlier_marker();
  void undo() noexcept;

  std::filesystem::path folder_;
  std::string option_;
  RunMarker marker_;
  CreatedFolders made_;  // destroyed after the lock, whose file is in the folder
  std::filesystem::path canonical_;
  std::optional<RunLock> lock_;
  std::optional<RunMarker> earlier_marker_;
  bool damaged_ = false;  // whether there is an earlier marker that cannot be parsed
  RunLayout layout_;      // files of the earlier run and of this run
  // By output: expected number of files that the job's earlier runs have written.
  std::map<RunOutput, std::int64_t> kept_files_;
  bool begun_ = false;
};

}  // namespace evenkeel
