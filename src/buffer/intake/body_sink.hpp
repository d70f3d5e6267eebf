#pragma once

#include <cstdint>
#include <span>

namespace evenkeel {

/// Destination of a request's body while it is received. Each function may throw an Error, which refuses the
/// request.
class BodySink {
 public:
  BodySink() = default;
  BodySink(const BodySink&) = delete;
  BodySink& operator=(const BodySink&) = delete;
  virtual ~BodySink() = default;

  /// Called with the size of the body before its first byte arrives, if the size is known.
  virtual void expect(std::int64_t bytes) = 0;
  /// Returns memory to read the next bytes into, at least one. Call keep() with the number of bytes read.
  [[nodiscard]] virtual std::span<char> room() = 0;
  virtual void keep(std::int64_t bytes) = 0;
  /// Returns the number of bytes received.
  [[nodiscard]] virtual std::int64_t size() const noexcept = 0;
};

}  // namespace evenkeel
