#pragma once

#include <array>
#include <vector>

#include "row_fill.hpp"
#include "streaming.hpp"

namespace evenkeel {

/// Where the runs of one call lie in memory.
enum class Sources : std::uint8_t {
  consecutive,  ///< each begins where the one before it ended, whichever writer that went to
  scattered,    ///< anywhere: while a run is copied the next one is fetched
};

/// Writes a buffer from front to back, in runs of rows and stretches of padding. When it streams, pieces of
/// any size and alignment still leave as whole cache lines. All is written when it is destroyed, not before.
class RowWriter {
 public:
  /// `total_bytes` is what the call that makes writers will write, through all of them; it decides whether
  /// they stream. `fill` must outlive the writer.
  RowWriter(std::byte* to, std::size_t total_bytes, const RowFill& fill, Sources sources);
  RowWriter(const RowWriter&) = delete;
  RowWriter& operator=(const RowWriter&) = delete;
  ~RowWriter();

  void copy(const std::byte* from, std::size_t bytes) noexcept {
    if (bytes == 0) return;
    if (!streams_) {
      std::memcpy(to_, from, bytes);
      to_ += bytes;
      return;
    }
    stream_waiting({from, bytes});
    from_ = {from, bytes};
    if (sources_ == Sources::consecutive) stream_waiting({});
  }

  void pad(std::int64_t rows) noexcept {
    if (streams_) {
      pad_rows_ += rows;
    } else {
      fill_(to_, rows);
      to_ += fill_.bytes(rows);
    }
  }

 private:
  void stream_waiting(std::span<const std::byte> next) noexcept;
  void put(std::span<const std::byte> from, std::span<const std::byte> next) noexcept;

  const RowFill& fill_;
  std::byte* to_;  // up to here everything is written or, of the line begun, waits in line_
  bool streams_;
  Sources sources_;

  // What waits until the next run is known, so that its source can be fetched meanwhile.
  std::span<const std::byte> from_;
  std::int64_t pad_rows_ = 0;

  std::vector<std::byte> pad_block_;  // many pad rows
  std::size_t room_ =
      streaming::line_bytes;  // of the line begun: less than a line only at the buffer's start
  std::size_t begun_ = 0;     // bytes of it that are known
  alignas(streaming::line_bytes) std::array<std::byte, streaming::line_bytes> line_{};
};

}  // namespace evenkeel
