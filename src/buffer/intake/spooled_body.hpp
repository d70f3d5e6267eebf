#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

#include "io/files/input_file.hpp"
#include "io/files/unpacking.hpp"

namespace evenkeel {

/// The body of a request, in memory: what reads files reads it.
class SpooledBody {
 public:
  SpooledBody() = default;
  SpooledBody(SpooledBody&& other) noexcept;
  SpooledBody& operator=(SpooledBody&&) = delete;

  /// So many bytes are about to come: a hint.
  void expect(std::int64_t bytes);
  /// Memory for the next bytes, of which the first ones may then be kept. Throws IoError if there is none.
  [[nodiscard]] std::span<char> room();
  void keep(std::int64_t bytes) noexcept { size_ += bytes; }
  /// Throws IoError if there is no memory.
  void write(std::span<const char> bytes);
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }

  /// What a packed body holds. Throws InputError if it is damaged or cut off, LimitError above `most_bytes`.
  [[nodiscard]] SpooledBody unpacked(Packing packing, std::int64_t most_bytes);

  /// Call once, after the last write. Errors call it "body". Both stay as long as this object, and move
  /// with it. Zeros follow the bytes, as many as outline_samples() needs.
  [[nodiscard]] const InputFile& file();
  [[nodiscard]] std::string_view bytes() const noexcept {
    return {memory_.get(), static_cast<std::size_t>(size_)};
  }

 private:
  struct Free {
    void operator()(char* memory) const noexcept { std::free(memory); }
  };
  void make_room(std::int64_t bytes);

  std::unique_ptr<char[], Free> memory_;
  std::int64_t size_ = 0;
  std::int64_t room_ = 0;
  std::unique_ptr<InputFile> file_;
};

}  // namespace evenkeel
