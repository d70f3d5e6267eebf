#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "io/files/input_file.hpp"
#include "io/files/unpacking.hpp"

namespace evenkeel {

/// The body of a request, as a nameless file in memory: what reads files reads it.
class SpooledBody {
 public:
  /// Throws IoError if there are no descriptors.
  SpooledBody();
  ~SpooledBody();
  SpooledBody(SpooledBody&& other) noexcept;
  SpooledBody& operator=(SpooledBody&&) = delete;

  /// Throws IoError.
  void write(std::span<const char> bytes);
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// What a packed body holds. Throws InputError if it is damaged or cut off, LimitError above `most_bytes`.
  [[nodiscard]] SpooledBody unpacked(Packing packing, std::int64_t most_bytes);

  /// Call once, after the last write. Errors call it "body". Both stay as long as this object.
  [[nodiscard]] const InputFile& file();
  /// Precondition: file() was called.
  [[nodiscard]] std::string_view bytes() const noexcept { return {mapped_, static_cast<std::size_t>(size_)}; }

 private:
  int descriptor_ = -1;
  std::int64_t size_ = 0;
  const char* mapped_ = nullptr;
  std::unique_ptr<InputFile> file_;
};

}  // namespace evenkeel
