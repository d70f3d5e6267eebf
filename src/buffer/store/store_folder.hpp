#pragma once

#include <cstdint>
#include <filesystem>

namespace evenkeel {

/// A folder to which one process has exclusive access for the lifetime of this object, with a description of
/// its content. The lock is on the data file itself, so a cleanup program cannot remove the lock without the
/// data.
class StoreFolder {
 public:
  enum class Access { write, read };

  /// With Access::write, creates the folder and its data file if they do not exist. With Access::read,
  /// several processes may have it open, unless a process has it open for writing. Throws IoError if the
  /// folder cannot be created, opened or written, if another process has locked it, or if it contains
  /// anything but a buffer of this version.
  StoreFolder(std::filesystem::path path, Access access);
  ~StoreFolder();
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path data() const { return path_ / "data.mdb"; }
  /// Returns whether the data file was unlinked, so its content will be lost when this process ends.
  [[nodiscard]] bool is_removed() const noexcept;
  /// Returns the recorded minimum size of the store's file; 0 for a new folder.
  [[nodiscard]] std::int64_t file_bytes() const noexcept { return file_bytes_; }
  /// Records the minimum size durably. Throws IoError.
  void set_file_bytes(std::int64_t bytes);

 private:
  void lock_data();
  [[nodiscard]] bool is_data_at_its_path() const;
  void read_description();

  std::filesystem::path path_;
  Access access_;
  int data_ = -1;
  std::int64_t file_bytes_ = 0;
};

}  // namespace evenkeel
