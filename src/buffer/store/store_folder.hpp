#pragma once

#include <cstdint>
#include <filesystem>

#include "base/file_descriptor.hpp"

namespace evenkeel {

/// Folder of a store, with a description of its content. This object locks the folder for its lifetime. The
/// lock is on the data file itself, so a cleanup program cannot remove the lock without the data.
class StoreFolder {
 public:
  enum class Access { write, read };

  /// With Access::write, creates the folder and its data file if they do not exist, and excludes all other
  /// processes. With Access::read, several processes may open the folder at the same time. Throws IoError if
  /// the folder cannot be created or opened, if another process has locked it so that this access is
  /// excluded, or if it is not empty and does not contain a store of this version.
  StoreFolder(std::filesystem::path path, Access access);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path data() const { return path_ / "data.mdb"; }
  /// Returns whether the data file was unlinked; if so, its content will be lost when this process ends.
  [[nodiscard]] bool is_removed() const noexcept;
  /// Returns the recorded minimum size of the data file; 0 for a new folder.
  [[nodiscard]] std::int64_t file_bytes() const noexcept { return file_bytes_; }
  /// Records the minimum size of the data file durably. Throws IoError if the description cannot be written.
  void record_file_bytes(std::int64_t bytes);

 private:
  void open_and_lock_data();
  [[nodiscard]] bool is_data_at_its_path() const;
  void read_description();

  std::filesystem::path path_;
  Access access_;
  FileDescriptor data_;
  std::int64_t file_bytes_ = 0;
};

}  // namespace evenkeel
