#include "pack/row_writer.hpp"

namespace evenkeel {
namespace {

// Small enough for the nearest cache, large enough to be streamed at full speed.
constexpr std::size_t pad_block_bytes = 4096;

}  // namespace

RowWriter::RowWriter(std::byte* to, std::size_t total_bytes, const RowFill& fill, Sources sources)
    : fill_(fill), to_(to), streams_(streaming::pays_off(total_bytes)), sources_(sources) {
  if (!streams_) return;
  lines_ = LineWriter(to);
  pad_block_ = fill.repeated(pad_block_bytes);
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
