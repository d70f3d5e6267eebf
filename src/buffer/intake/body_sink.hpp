#pragma once

#include <cstdint>
#include <span>

namespace evenkeel {

/// Destination of a request's body while the body is received. Each function may throw an Error to reject the
/// request.
class BodySink {
 public:
  BodySink() = default;
  BodySink(const BodySink&) = delete;
  BodySink& operator=(const BodySink&) = delete;
  virtual ~BodySink() = default;

  /// Called before the first byte of the body arrives, with the size of the body, or 0 if it is not known.
  virtual void set_expected_bytes(std::int64_t bytes) = 0;
  /// Returns memory for at least one more byte. After reading into it, call mark_received() with the number
  /// of bytes read.
  [[nodiscard]] virtual std::span<char> receive_buffer() = 0;
  virtual void mark_received(std::int64_t bytes) = 0;
  /// Returns the number of bytes received.
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
};

}  // namespace evenkeel
