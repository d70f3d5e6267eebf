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

  /// Reserves memory for this many bytes, up to a limit, before they arrive. Throws IoError if memory runs
  /// out.
  void expect(std::int64_t bytes) override;
  /// Returns memory to read the next bytes into. Call keep() with the number of bytes read. Throws IoError if
  /// memory runs out.
  [[nodiscard]] std::span<char> room() override;
  void keep(std::int64_t bytes) noexcept override { size_ += bytes; }
  /// Appends bytes. Throws IoError if memory runs out.
  void write(std::span<const char> bytes);
  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }

  /// Returns the decompressed content of a compressed body. Throws InputError if it is damaged or cut off,
  /// and LimitError above `max_bytes`.
  [[nodiscard]] RequestBody unpack_body(Packing packing, std::int64_t max_bytes);

  /// Returns the body as a file whose name in errors is "body". Call this after the last write and before
  /// bytes(). Both results remain valid for the lifetime of this object, even if it is moved. The bytes are
  /// followed by as many zeros as outline_samples() needs.
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
