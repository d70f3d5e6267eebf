#include "pack/row_writer.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

// Size of a RowWriter's block of pad rows: small enough for the L1 cache, but large enough to be written at
// full speed.
constexpr std::size_t pad_block_bytes = 4096;

}  // namespace

void require_bytes(std::size_t actual, std::size_t needed, const char* what) {
  if (actual == needed) return;
  throw InputError(what, "the size is " + format_plain_count(static_cast<std::int64_t>(actual), "byte") +
                             "; it must be " + std::to_string(needed));
}

void require_bytes(std::size_t actual, std::initializer_list<std::size_t> factors, const char* what) {
  std::size_t needed = std::ranges::find(factors, std::size_t{0}) == factors.end() ? 1 : 0;
  for (const std::size_t factor : factors) {
    if (needed > 0 && factor > std::numeric_limits<std::size_t>::max() / needed) {
      throw InputError(what, "the size is " + format_plain_count(static_cast<std::int64_t>(actual), "byte") +
                                 "; by its shape, it must be 2^64 or more");
    }
    needed *= factor;
  }
  require_bytes(actual, needed, what);
}

RowFill::RowFill(std::span<const std::byte> pad_row, std::size_t row_bytes)
    : pad_row_(pad_row),
      row_bytes_(row_bytes),
      uniform_(std::ranges::adjacent_find(pad_row, std::not_equal_to{}) == pad_row.end()) {
  if (!pad_row.empty()) require_bytes(pad_row.size(), row_bytes, "pad row");
}

std::vector<std::byte> RowFill::repeat_rows(std::size_t bytes) const {
  if (row_bytes_ == 0) return {};
  const std::size_t rows = std::max<std::size_t>(bytes / row_bytes_, 1);
  std::vector<std::byte> block(rows * row_bytes_);
  (*this)(block.data(), static_cast<std::int64_t>(rows));
  return block;
}

void RowFill::operator()(std::byte* rows, std::int64_t count) const noexcept {
  const std::size_t bytes = bytes_of(count, row_bytes_);
  if (bytes == 0) return;
  if (uniform_) {
    std::memset(rows, pad_row_.empty() ? 0 : std::to_integer<int>(pad_row_.front()), bytes);
    return;
  }
  // Double the filled part until the block is large enough to be copied at full speed, but still fits in the
  // L1 cache.
  constexpr std::size_t large_enough = 4096;
  std::memcpy(rows, pad_row_.data(), row_bytes_);
  std::size_t block = row_bytes_;
  for (std::size_t filled = row_bytes_; filled < bytes;) {
    const std::size_t copied = std::min(block, bytes - filled);
    std::memcpy(rows + filled, rows, copied);
    filled += copied;
    if (block < large_enough) block = filled;
  }
}

RowWriter::RowWriter(std::byte* to, std::size_t total_bytes, const RowFill& fill, Sources sources)
    : fill_(fill), to_(to), streams_(streaming::is_worthwhile(total_bytes)), sources_(sources) {
  if (!streams_) return;
  lines_ = LineWriter(to);
  pad_block_ = fill.repeat_rows(pad_block_bytes);
}

RowWriter::~RowWriter() {
  if (!streams_) return;
  while (!queue_.empty()) write_front();
  lines_.finish();
  streaming::finish();
}

void RowWriter::write(const SourceRun& run) noexcept {
  if (run.from != nullptr) {
    put(run.from, run.bytes);
  } else {
    for (std::size_t left = run.bytes; left > 0;) {
      const std::size_t bytes = std::min(left, pad_block_.size());
      put(pad_block_.data(), bytes);
      left -= bytes;
    }
  }
}

void RowWriter::put(const std::byte* from, std::size_t bytes) noexcept {
  if (sources_ == Sources::consecutive) return lines_.put(from, bytes);
  lines_.put(from, bytes, [&](std::byte* to, const std::byte* lines, std::size_t count) {
    queue_.store_lines(to, lines, count);
  });
}

}  // namespace evenkeel
