#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/input_file.hpp"

namespace evenkeel {

/// The bytes of an array with its header: an open file, or what was unpacked into memory.
class NpyBytes {
 public:
  /// Throws IoError as InputFile does.
  explicit NpyBytes(const std::filesystem::path& path)
      : name_(path.string()), file_(std::make_unique<const InputFile>(path)) {}
  /// `name` is the place that errors name.
  NpyBytes(std::string name, std::vector<char> bytes) : name_(std::move(name)), memory_(std::move(bytes)) {}

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::int64_t size() const noexcept { return file_ ? file_->size() : std::ssize(memory_); }
  /// Fills `out` with the bytes from `offset` on. Precondition: there are so many. Throws IoError.
  void read(std::span<char> out, std::int64_t offset) const;

 private:
  std::string name_;
  std::unique_ptr<const InputFile> file_;  // none where the bytes are in memory
  std::vector<char> memory_;
};

}  // namespace evenkeel
