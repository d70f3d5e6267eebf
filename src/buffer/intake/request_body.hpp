#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

#include "buffer/intake/body_sink.hpp"
#include "io/files/input_file.hpp"
#include "io/files/unpacking.hpp"

namespace evenkeel {

/// The body of a request, in memory. File readers can read it like a file.
class RequestBody final : public BodySink {
 public:
  RequestBody() = default;
  RequestBody(RequestBody&& other) noexcept;
  RequestBody& operator=(RequestBody&&) = delete;
  ~RequestBody() override = default;

  /// Reserves memory, up to a limit, for a body of `bytes` bytes before it arrives. Throws IoError if memory
  /// runs out.
  void expect(std::int64_t bytes) override;
  /// Returns memory for the next bytes. After reading into it, call keep() with the number of bytes read.
  /// Throws IoError if memory runs out.
  [[nodiscard]] std::span<char> room() override;
  void keep(std::int64_t bytes) noexcept override { size_ += bytes; }
  /// Appends bytes. Throws IoError if memory runs out.
  void write(std::span<const char> bytes);
  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }

  /// Returns the decompressed content of this body. Throws InputError if the compressed data is damaged or
  /// truncated, and LimitError if the content has more than `max_bytes` bytes.
  [[nodiscard]] RequestBody unpack_body(Packing packing, std::int64_t max_bytes);

  /// Returns the body as a file that errors call "body". Call this after the last write and before bytes().
  /// The results of file() and bytes() remain valid if this object is moved, until the object that then owns
  /// the body is destroyed. The bytes are followed by as many zeros as outline_samples() needs.
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
