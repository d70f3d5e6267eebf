#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace evenkeel {

/// A regular file open for reading at any place. Every error is an IoError that names the file.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Bytes, when the file was opened.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Fills `out` with the bytes from `offset` on; a file that ends before that is an error.
  void read(std::span<char> out, std::int64_t offset) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace evenkeel
