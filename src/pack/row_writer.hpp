#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/line_writer.hpp"
#include "evenkeel/base/assertions.hpp"
#include "pack/run_queue.hpp"

namespace evenkeel {

/// Bytes of `rows` rows. Precondition: rows >= 0.
[[nodiscard]] constexpr std::size_t bytes_of(std::int64_t rows, std::size_t row_bytes) noexcept {
  EVENKEEL_PRECONDITION(cheap, rows >= 0, rows);
  return static_cast<std::size_t>(rows) * row_bytes;
}

/// Throws InputError naming `what` when a buffer does not have the bytes it needs.
void require_bytes(std::size_t actual, std::size_t needed, const char* what);
/// The same where the product of `factors`, which need not fit into 64 bits, are needed.
void require_bytes(std::size_t actual, std::initializer_list<std::size_t> factors, const char* what);

/// Writes copies of one pad row. Does not own the row, which must outlive it.
class RowFill {
 public:
  /// `pad_row` has row_bytes bytes, or none for zeros. Throws InputError otherwise.
  RowFill(std::span<const std::byte> pad_row, std::size_t row_bytes);

  [[nodiscard]] std::size_t bytes(std::int64_t rows) const noexcept { return bytes_of(rows, row_bytes_); }

  /// As many pad rows as fit into `bytes`, but one at least; nothing when rows have no bytes.
  [[nodiscard]] std::vector<std::byte> repeated(std::size_t bytes) const;

  /// Fills `count` rows from `rows` on.
  void operator()(std::byte* rows, std::int64_t count) const noexcept;

 private:
  std::span<const std::byte> pad_row_;
  std::size_t row_bytes_;
  bool uniform_;  // every byte of the row is the same, so that one memset does
};

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
