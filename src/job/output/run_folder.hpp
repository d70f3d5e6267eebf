#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/output/run_lock.hpp"
#include "job/output/run_marker.hpp"

namespace evenkeel {

/// Folders that were missing and were made; taken away again, where still empty, unless kept.
class MadeFolders {
 public:
  /// Makes `folder` and what is missing above it. Throws IoError that names the option it was given to.
  MadeFolders(const std::filesystem::path& folder, const std::string& option);
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;
  ~MadeFolders();

  void keep() noexcept { made_.clear(); }

 private:
  std::vector<std::filesystem::path> made_;  // outermost first
};

/// An output folder in the hands of one run, from before anything is written until all is: locked, marked as
/// running, then as complete. One process has it, for all ranks that see the folder. Everything is local.
///
/// A folder holds one run's files. One that has another's is refused, or cleared of exactly those.
///
/// Destroyed before complete(), it stays marked as running when the run wrote something, and becomes what it
/// was before when it did not.
class RunFolder {
 public:
  /// Makes the folder where it is missing. Throws IoError when that fails. `option` is for messages: --dump.
  RunFolder(const std::filesystem::path& folder, std::string option, const RunMarker& marker);
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder();

  /// Locks it. False when another process of the same run, on another node, has the lock. Throws IoError when
  /// another run has.
  [[nodiscard]] bool lock();
  /// False where the file system knows no locks.
  [[nodiscard]] bool keeps_others_out() const noexcept { return lock_ && lock_->keeps_others_out(); }

  /// The run will write this here too.
  void add(RunOutput output) { marker_.files[output] = 0; }
  /// Throws IoError when the folder holds another job's files, unless `overwrite`, or what would be in the
  /// way in any case. Files of the job that this run goes on with are in nobody's way, unless they are of
  /// other passes. Changes nothing. Call after the last add().
  void require_free(bool overwrite);
  /// Removes an earlier run's files, where require_free() let them pass, and marks the folder as running. Of
  /// the job that this run goes on with, only those of its first step and later ones, and what interrupted
  /// writes left.
  void begin();
  /// Marks it as complete and unlocks it. `files` are those that this run wrote.
  void complete(std::int64_t steps, const std::map<RunOutput, std::int64_t>& files);

  [[nodiscard]] const std::string& option() const noexcept { return option_; }
  /// Absolute, without symbolic links.
  [[nodiscard]] const std::filesystem::path& canonical() const noexcept { return canonical_; }

 private:
  [[noreturn]] void refuse(const std::string& why, const std::string& hint) const;
  [[noreturn]] void refuse_used(const std::filesystem::path& first_file) const;
  void require_same_passes() const;
  void require_no_other_inside() const;
  void require_not_inside_another() const;
  [[nodiscard]] bool goes_on() const;
  void remember_first_steps();
  void remove_replaced();
  void read_earlier();
  void undo() noexcept;

  std::filesystem::path folder_;
  std::string option_;
  RunMarker marker_;
  MadeFolders made_;  // goes after the lock, which lies in it
  std::filesystem::path canonical_;
  std::optional<RunLock> lock_;
  std::optional<RunMarker> earlier_;
  bool damaged_ = false;  // there is an earlier marker, and it cannot be understood
  RunLayout layout_;      // the earlier run's and this one's
  std::map<RunOutput, std::int64_t>
      kept_;  // files that the job's earlier runs wrote and that should be there
  bool begun_ = false;
};

}  // namespace evenkeel
