#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/line_writer.hpp"
#include "pack/row_fill.hpp"
#include "pack/run_queue.hpp"

namespace evenkeel {

/// Where the sources of one call's runs lie in memory.
enum class Sources : std::uint8_t {
  consecutive,  ///< each begins about where one before it ended, whichever writer that went to
  scattered,    ///< anywhere: while runs are copied the next ones are fetched
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
    if (streams_) {
      stream({from, bytes});
    } else {
      std::memcpy(to_, from, bytes);
      to_ += bytes;
    }
  }

  void pad(std::int64_t rows) noexcept {
    const std::size_t bytes = fill_.bytes(rows);
    if (bytes == 0) return;
    if (streams_) {
      stream({nullptr, bytes});
    } else {
      fill_(to_, rows);
      to_ += bytes;
    }
  }

 private:
  void stream(const SourceRun& run) noexcept {
    if (sources_ == Sources::consecutive) return write(run);
    queue_.push(run);
    while (queue_.full()) write_front();
  }
  void write_front() noexcept {
    write(queue_.front());
    queue_.pop();
  }
  void write(const SourceRun& run) noexcept;
  void put(const std::byte* from, std::size_t bytes) noexcept;

  const RowFill& fill_;
  std::byte* to_;  // up to here everything is written, where it does not stream
  bool streams_;
  Sources sources_;
  RunQueue queue_;  // of scattered sources

  std::vector<std::byte> pad_block_;  // many pad rows
  LineWriter lines_;                  // where it streams
};

}  // namespace evenkeel
