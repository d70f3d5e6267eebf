#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/files/input_file.hpp"

namespace evenkeel {

/// The bytes of an array with its header: an open file, a part of one, or what was unpacked into memory.
class NpyBytes {
 public:
  /// Throws IoError as InputFile does.
  explicit NpyBytes(const std::filesystem::path& path)
      : name_(path.string()), file_(std::make_unique<const InputFile>(path)) {}
  /// `name` is the place that errors name.
  NpyBytes(std::string name, std::vector<char> bytes) : name_(std::move(name)), memory_(std::move(bytes)) {}
  /// `size` bytes of which `ranges` reads those from a place on.
  NpyBytes(std::string name, std::int64_t size, std::function<void(std::span<char>, std::int64_t)> ranges)
      : name_(std::move(name)), ranges_(std::move(ranges)), ranges_size_(size) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::int64_t size() const noexcept {
    if (ranges_) return ranges_size_;
    return file_ ? file_->size() : std::ssize(memory_);
  }
  /// The file; null where the bytes are not all of a file.
  [[nodiscard]] const InputFile* file() const noexcept { return file_.get(); }
  /// Fills `out` with the bytes from `offset` on. Precondition: there are so many. Throws IoError.
  void read(std::span<char> out, std::int64_t offset) const;

 private:
  std::string name_;
  std::unique_ptr<const InputFile> file_;  // none where the bytes are in memory
  std::vector<char> memory_;
  std::function<void(std::span<char>, std::int64_t)> ranges_;
  std::int64_t ranges_size_ = 0;
};

}  // namespace evenkeel
