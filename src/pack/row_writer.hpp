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

/// Returns the number of bytes of `rows` rows. Precondition: rows >= 0.
[[nodiscard]] constexpr std::size_t bytes_of(std::int64_t rows, std::size_t row_bytes) noexcept {
  EVENKEEL_PRECONDITION(cheap, rows >= 0, rows);
  return static_cast<std::size_t>(rows) * row_bytes;
}

/// Throws InputError naming `what` unless a buffer has the needed number of bytes.
void require_bytes(std::size_t actual, std::size_t needed, const char* what);
/// Same as above, but the required number of bytes is the product of `factors`, which may exceed 64 bits.
void require_bytes(std::size_t actual, std::initializer_list<std::size_t> factors, const char* what);

/// Writes copies of one pad row. Does not own the row, which must outlive this object.
class RowFill {
 public:
  /// `pad_row` has row_bytes bytes, or is empty for zeros. Throws InputError otherwise.
  RowFill(std::span<const std::byte> pad_row, std::size_t row_bytes);

  [[nodiscard]] std::size_t bytes(std::int64_t rows) const noexcept { return bytes_of(rows, row_bytes_); }

  /// Returns as many pad rows as fit in `bytes`, but at least one; an empty vector if rows have no bytes.
  [[nodiscard]] std::vector<std::byte> repeat_rows(std::size_t bytes) const;

  /// Fills `count` rows, beginning at `rows`.
  void operator()(std::byte* rows, std::int64_t count) const noexcept;

 private:
  std::span<const std::byte> pad_row_;
  std::size_t row_bytes_;
  bool uniform_;  // whether all bytes of the pad row are equal, so that a single memset is enough
};

/// Memory layout of the source rows of successive RowWriter::copy() calls.
enum class Sources : std::uint8_t {
  /// Each source begins approximately where an earlier source ended, which another writer may have copied.
  consecutive,
  scattered,  ///< anywhere in memory, so the next runs are prefetched while one run is copied
};

/// Writes a buffer from front to back, in runs of rows and runs of padding. With streaming stores, pieces of
/// any size and alignment are combined into whole cache lines. The buffer is complete only after the writer
/// has been destroyed.
class RowWriter {
 public:
  /// `total_bytes` is the number of bytes that one pack operation writes through all of its writers. If it is
  /// large, the writers use streaming stores. `fill` must outlive the writer.
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
  std::byte* to_;  // next byte to write; not used with streaming stores
  bool streams_;
  Sources sources_;
  RunQueue queue_;  // used only for scattered sources

  std::vector<std::byte> pad_block_;  // copies of the pad row; used only with streaming stores
  LineWriter lines_;                  // used only with streaming stores
};

}  // namespace evenkeel
