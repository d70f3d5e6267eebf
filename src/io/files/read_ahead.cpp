#include "io/files/read_ahead.hpp"

#include <algorithm>
#include <functional>

namespace evenkeel {
namespace {

/// Ranges that are this close are one request to the disk. A request may cost as much as reading some 16 KiB,
/// and where others read the same file, what lies between is mostly theirs.
constexpr std::int64_t gap_bytes = 1 << 16;

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
  std::int64_t spare = max_bytes - bytes_;  // for what lies between
  for (std::size_t first = 0; first < pieces_.size();) {
    ByteRange range = pieces_[first].range;
    std::size_t next = first + 1;
    for (; next < pieces_.size() && pieces_[next].file == pieces_[first].file &&
           pieces_[next].range.begin <= range.end + std::min(gap_bytes, spare);
         ++next) {
      spare -= std::max<std::int64_t>(pieces_[next].range.begin - range.end, 0);
      range.end = std::max(range.end, pieces_[next].range.end);
    }
    pieces_[first].file->fetch(range);
    first = next;
  }
  pieces_.clear();
  bytes_ = 0;
}

}  // namespace evenkeel
