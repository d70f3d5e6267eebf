#pragma once

#include <filesystem>
#include <optional>

#include "job/output/run_marker.hpp"

namespace evenkeel {

/// A run's lock on its output folder, held for the lifetime of this object. It is a lock on a file in the
/// folder that identifies the run. The system releases the lock when the process ends for any reason. The
/// file may be left behind, but it has no effect without the lock.
class RunLock {
 public:
  static constexpr const char* file_name = ".evenkeel-run.lock";

  /// Returns nullopt if another process has the lock. Throws IoError if the file cannot be written.
  [[nodiscard]] static std::optional<RunLock> try_acquire(const std::filesystem::path& folder,
                                                          const RunIdentity& run);

  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&&) = delete;
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

  /// Returns false if the file system does not support locks. In that case, other runs are not kept out.
  [[nodiscard]] bool blocks_other_runs() const noexcept { return locked_; }

 private:
  RunLock(std::filesystem::path path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  bool lock();
  void write(const RunIdentity& run) const;
  void publish_to_nodes() const;

  std::filesystem::path path_;
  int descriptor_;
  bool held_ = false;    // whether this object owns the lock file
  bool locked_ = false;  // whether the file system supports the lock
};

/// Returns the run identified by the lock file in `folder`, whether or not the lock is held. Returns nullopt
/// if the file is missing or does not identify a run.
[[nodiscard]] std::optional<RunIdentity> read_lock_identity(const std::filesystem::path& folder);

/// Returns whether a process currently holds the lock on `folder`. Does not affect the lock.
[[nodiscard]] bool is_locked(const std::filesystem::path& folder);

}  // namespace evenkeel
