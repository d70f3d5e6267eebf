#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "base/streaming.hpp"

namespace evenkeel {

/// Writes memory from front to back past the caches, in pieces of any size and alignment, which leave as
/// whole cache lines. All is written after finish(), not before.
class LineWriter {
 public:
  LineWriter() = default;
  explicit LineWriter(std::byte* to) noexcept : to_(to), room_(streaming::room_in_line(to)) {}

  /// `store_lines(to, from, count)` stores the whole lines of the piece, as streaming::store_lines does.
  template <typename StoreLines>
  void put(const std::byte* from, std::size_t bytes, StoreLines store_lines) noexcept {
    if (begun_ > 0 || room_ < streaming::line_bytes) {
      const std::size_t taken = std::min(room_ - begun_, bytes);
      std::memcpy(line_.data() + begun_, from, taken);
      begun_ += taken;
      from += taken;
      bytes -= taken;
      if (begun_ < room_) return;
      store_begun_line();
    }
    const std::size_t lines = bytes / streaming::line_bytes;
    store_lines(to_, from, lines);
    to_ += lines * streaming::line_bytes;
    begun_ = bytes % streaming::line_bytes;
    if (begun_ > 0) std::memcpy(line_.data(), from + lines * streaming::line_bytes, begun_);
  }
  void put(const std::byte* from, std::size_t bytes) noexcept {
    put(from, bytes, [](std::byte* to, const std::byte* lines, std::size_t count) {
      streaming::store_lines(to, lines, count);
    });
  }

  /// Nothing may be put after it. Others see the lines after streaming::finish().
  void finish() noexcept {
    std::memcpy(to_, line_.data(), begun_);
    begun_ = 0;
  }

 private:
  void store_begun_line() noexcept {
    if (room_ == streaming::line_bytes) {
      streaming::store_line(to_, line_.data());
    } else {
      std::memcpy(to_, line_.data(), room_);
    }
    to_ += room_;
    room_ = streaming::line_bytes;
    begun_ = 0;
  }

  std::byte* to_ = nullptr;  // up to here everything is written; of the line begun there, the rest waits
  std::size_t room_ = streaming::line_bytes;  // of the line begun: less than a line only at the front
  std::size_t begun_ = 0;                     // bytes of it that are known
  alignas(streaming::line_bytes) std::array<std::byte, streaming::line_bytes> line_{};
};

}  // namespace evenkeel
