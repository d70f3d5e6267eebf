#pragma once

#include <cstdint>
#include <filesystem>

namespace evenkeel {

/// A folder that one process has for itself as long as this object lives, and that says what is in it.
class StoreFolder {
 public:
  /// Makes the folder if it is not there. Throws IoError if it cannot be made, opened or written, if another
  /// process has it, if it holds anything but a buffer, or a buffer of a later version.
  explicit StoreFolder(std::filesystem::path path);
  ~StoreFolder();
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// The least size that the store's file had when it was written down; 0 for a new folder.
  [[nodiscard]] std::int64_t file_bytes() const noexcept { return file_bytes_; }
  /// Writes it down. Throws IoError.
  void set_file_bytes(std::int64_t bytes);

 private:
  void lock();
  void read_description();

  std::filesystem::path path_;
  int lock_ = -1;
  std::int64_t file_bytes_ = 0;
};

}  // namespace evenkeel
