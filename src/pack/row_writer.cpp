#include "row_writer.hpp"

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
  stream_waiting({});
  std::memcpy(to_, line_.data(), begun_);
  streaming::finish();
}

void RowWriter::stream_waiting(std::span<const std::byte> next) noexcept {
  put(from_, next);
  from_ = {};
  for (std::size_t left = fill_.bytes(pad_rows_); left > 0;) {
    const std::size_t bytes = std::min(left, pad_block_.size());
    put(std::span(pad_block_).first(bytes), {});
    left -= bytes;
  }
  pad_rows_ = 0;
}

void RowWriter::put(std::span<const std::byte> from, std::span<const std::byte> next) noexcept {
  if (from.empty()) return;
  if (begun_ > 0 || room_ < streaming::line_bytes) {
    const std::size_t bytes = std::min(room_ - begun_, from.size());
    std::memcpy(line_.data() + begun_, from.data(), bytes);
    begun_ += bytes;
    from = from.subspan(bytes);
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
  const std::size_t stored = streaming::store_lines(to_, from, next);
  to_ += stored;
  begun_ = from.size() - stored;
  if (begun_ > 0) std::memcpy(line_.data(), from.data() + stored, begun_);
}

}  // namespace evenkeel
