#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "base/streaming.hpp"

namespace evenkeel {

/// Writes memory from front to back, bypassing the caches. Accepts pieces of any size and alignment, and
/// combines them into whole cache lines. The memory is complete only after finish().
class LineWriter {
 public:
  LineWriter() = default;
  explicit LineWriter(std::byte* to) noexcept : to_(to), room_(streaming::bytes_left_in_line(to)) {}

  /// Appends a piece. `store_lines(to, from, count)` stores the whole lines of the piece, like
  /// streaming::store_lines.
  template <typename StoreLines>
  void put(const std::byte* from, std::size_t bytes, StoreLines store_lines) noexcept {
    if (buffered_bytes_ > 0 || room_ < streaming::line_bytes) {
      const std::size_t taken = std::min(room_ - buffered_bytes_, bytes);
      std::memcpy(line_.data() + buffered_bytes_, from, taken);
      buffered_bytes_ += taken;
      from += taken;
      bytes -= taken;
      if (buffered_bytes_ < room_) return;
      store_buffered_line();
    }
    const std::size_t lines = bytes / streaming::line_bytes;
    store_lines(to_, from, lines);
    to_ += lines * streaming::line_bytes;
    buffered_bytes_ = bytes % streaming::line_bytes;
    if (buffered_bytes_ > 0) std::memcpy(line_.data(), from + lines * streaming::line_bytes, buffered_bytes_);
  }
  void put(const std::byte* from, std::size_t bytes) noexcept {
    put(from, bytes, [](std::byte* to, const std::byte* lines, std::size_t count) {
      streaming::store_lines(to, lines, count);
    });
  }

  /// Stores the incomplete last line. Do not append anything afterwards. Other threads see the data after
  /// streaming::finish().
  void finish() noexcept {
    std::memcpy(to_, line_.data(), buffered_bytes_);
    buffered_bytes_ = 0;
  }

 private:
  void store_buffered_line() noexcept {
    if (room_ == streaming::line_bytes) {
      streaming::store_line(to_, line_.data());
    } else {
      std::memcpy(to_, line_.data(), room_);
    }
    to_ += room_;
    room_ = streaming::line_bytes;
    buffered_bytes_ = 0;
  }

  std::byte* to_ = nullptr;  // destination of the current line; the lines before it have been stored
  // Size of the current line in bytes. Only the first line may be shorter than a cache line.
  std::size_t room_ = streaming::line_bytes;
  std::size_t buffered_bytes_ = 0;  // number of bytes of the current line that are buffered in `line_`
  alignas(streaming::line_bytes) std::array<std::byte, streaming::line_bytes> line_{};
};

}  // namespace evenkeel
