#pragma once

#include <filesystem>
#include <optional>

#include "job/output/run_marker.hpp"

namespace evenkeel {

/// A run's hold on its output folder: a lock on a file in it, which names the run, for as long as the object
/// lives. The system lets go of it when the process ends, however it ends; the file may stay behind then, and
/// means nothing without the lock.
class RunLock {
 public:
  static constexpr const char* file_name = ".evenkeel-run.lock";

  /// Nothing when another has the lock. Throws IoError when the file cannot be made.
  [[nodiscard]] static std::optional<RunLock> try_take(const std::filesystem::path& folder,
                                                       const RunIdentity& run);

  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  /// False where the file system knows no locks: then nobody is kept out.
  [[nodiscard]] bool keeps_others_out() const noexcept { return locked_; }

 private:
  RunLock(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  bool lock();
  void write(const RunIdentity& run) const;
  void hand_to_other_nodes() const;

  std::filesystem::path path_;
  int descriptor_;
  bool held_ = false;    // this object made the file its own
  bool locked_ = false;  // and the system knows
};

/// Whom the lock file in `folder` names, held or not; nothing when there is none or it names nobody.
[[nodiscard]] std::optional<RunIdentity> named_by_lock(const std::filesystem::path& folder);

/// Whether a process holds the lock on `folder` at this moment. Does not disturb it.
[[nodiscard]] bool is_locked(const std::filesystem::path& folder);

}  // namespace evenkeel
