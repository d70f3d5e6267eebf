#pragma once

#include <cstdint>
#include <vector>

namespace evenkeel {

class InputFile;

/// Half-open range of bytes of a file.
struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] constexpr std::int64_t size() const noexcept { return end - begin; }
  friend constexpr bool operator==(ByteRange, ByteRange) = default;
};

/// [0, bytes) as `parts` contiguous ranges in order whose sizes differ by at most one byte; the longer ones
/// come first. Throws InputError when `parts` < 1 or `bytes` < 0.
[[nodiscard]] std::vector<ByteRange> split_bytes(std::int64_t bytes, int parts);

/// Where a line is: its first byte and its length without the line end ("\n" or "\r\n").
struct LineRef {
  std::int64_t offset = 0;  ///< bytes from the start of the file
  std::int64_t bytes = 0;
  std::int64_t number = 0;  ///< 0-based physical line; people are shown number + 1

  friend constexpr bool operator==(const LineRef&, const LineRef&) = default;
};

struct LineScan {
  std::vector<LineRef> lines;  ///< the lines that are not blank, in order
  std::int64_t newlines = 0;   ///< physical lines, blank ones too, that start in the range
};

/// Finds the lines whose first byte is in `range`, numbered from 0 at the first of them. The last one may run
/// past the range. Cut a file into ranges anywhere, scan each on its own, add up the `newlines` of the ranges
/// before: the result is the scan of the whole.
///
/// A line of white space only is blank: counted, not returned. The last line needs no newline. A UTF-8 byte
/// order mark at the start of the file belongs to no line. A range past the end of the file is cut to it.
///
/// Reads the range, the byte before it and the rest of its last line. O(bytes read). Throws IoError as
/// reading does, and InputError for a file that starts as UTF-16 does.
[[nodiscard]] LineScan scan_lines(const InputFile& file, ByteRange range);
/// The same of the whole file.
[[nodiscard]] LineScan scan_lines(const InputFile& file);

}  // namespace evenkeel
