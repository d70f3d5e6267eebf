#include "io/read_ahead.hpp"

#include <algorithm>
#include <functional>

namespace evenkeel {
namespace {

constexpr std::int64_t gap_bytes = 1 << 12;  ///< pages that are this close are one request to the disk

}  // namespace

void ReadAhead::add(const InputFile& file, ByteRange range) {
  if (range.size() <= 0 || bytes_ + range.size() > max_bytes) return;
  pieces_.push_back({&file, range});
  bytes_ += range.size();
}

void ReadAhead::start() {
  std::ranges::sort(pieces_, [](const Piece& a, const Piece& b) {
    if (a.file != b.file) return std::less<>()(a.file, b.file);
    return a.range.begin < b.range.begin;
  });
  for (std::size_t first = 0; first < pieces_.size();) {
    ByteRange range = pieces_[first].range;
    std::size_t next = first + 1;
    for (; next < pieces_.size() && pieces_[next].file == pieces_[first].file &&
           pieces_[next].range.begin <= range.end + gap_bytes;
         ++next)
      range.end = std::max(range.end, pieces_[next].range.end);
    pieces_[first].file->fetch(range);
    first = next;
  }
  pieces_.clear();
  bytes_ = 0;
}

}  // namespace evenkeel
