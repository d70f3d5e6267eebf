#include "pack/row_writer.hpp"

namespace evenkeel {
namespace {

// Small enough for the nearest cache, large enough to be streamed at full speed.
constexpr std::size_t pad_block_bytes = 4096;

}  // namespace

RowWriter::RowWriter(std::byte* to, std::size_t total_bytes, const RowFill& fill, Sources sources)
    : fill_(fill), to_(to), streams_(streaming::pays_off(total_bytes)), sources_(sources) {
  if (!streams_) return;
  room_ = streaming::room_in_line(to);
  pad_block_ = fill.repeated(pad_block_bytes);
}

RowWriter::~RowWriter() {
  if (!streams_) return;
  while (!queue_.empty()) write_front();
  std::memcpy(to_, line_.data(), begun_);
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
  if (begun_ > 0 || room_ < streaming::line_bytes) {
    const std::size_t taken = std::min(room_ - begun_, bytes);
    std::memcpy(line_.data() + begun_, from, taken);
    begun_ += taken;
    from += taken;
    bytes -= taken;
    if (begun_ < room_) return;
    if (room_ == streaming::line_bytes) {
      streaming::store_line(to_, line_.data());
    } else {
      std::memcpy(to_, line_.data(), room_);
    }
    to_ += room_;
    room_ = streaming::line_bytes;
    begun_ = 0;
  }
  const std::size_t lines = bytes / streaming::line_bytes;
  if (sources_ == Sources::consecutive) {
    streaming::store_lines(to_, from, lines);
  } else {
    queue_.store_lines(to_, from, lines);
  }
  to_ += lines * streaming::line_bytes;
  begun_ = bytes % streaming::line_bytes;
  std::memcpy(line_.data(), from + lines * streaming::line_bytes, begun_);
}

}  // namespace evenkeel
