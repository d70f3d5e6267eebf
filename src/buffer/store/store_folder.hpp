#pragma once

#include <cstdint>
#include <filesystem>

namespace evenkeel {

/// A folder that one process has for itself as long as this object lives, and that says what is in it. The
/// lock is on the file with the data: no program that tidies up can remove it without the data.
class StoreFolder {
 public:
  enum class Access { write, read };

  /// To write it, makes the folder and its data file if they are not there. Several processes may have it to
  /// read it. Throws IoError if it cannot be made, opened or written, if another process has it, if it holds
  /// anything but a buffer, or a buffer of another version.
  StoreFolder(std::filesystem::path path, Access access);
  ~StoreFolder();
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path data() const { return path_ / "data.mdb"; }
  /// Whether the data file has no name any more: it is gone when this process ends.
  [[nodiscard]] bool is_removed() const noexcept;
  /// The least size that the store's file had when it was written down; 0 for a new folder.
  [[nodiscard]] std::int64_t file_bytes() const noexcept { return file_bytes_; }
  /// Writes it down. Throws IoError.
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
