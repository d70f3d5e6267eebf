#pragma once

#include <cstdint>
#include <vector>

namespace evenkeel {

class InputFile;

/// Half-open range of bytes in a file.
struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] constexpr std::int64_t size() const noexcept { return end - begin; }
  friend constexpr bool operator==(ByteRange, ByteRange) = default;
};

/// Divides [0, bytes) into `parts` contiguous ranges, in order. Their sizes differ by at most one byte, and
/// longer ones come first. Throws InputError if `parts` < 1 or `bytes` < 0.
[[nodiscard]] std::vector<ByteRange> split_bytes(std::int64_t bytes, int parts);

/// Position of a line: its first byte, and its length without the line break ("\n" or "\r\n").
struct LineRef {
  std::int64_t offset = 0;  ///< bytes from the start of the file
  std::int64_t bytes = 0;
  std::int64_t number = 0;  ///< 0-based line number, counting blank lines; messages count from 1

  friend constexpr bool operator==(const LineRef&, const LineRef&) = default;
};

struct LineScan {
  std::vector<LineRef> lines;  ///< lines that start in the scanned range and are not blank, in order
  /// Number of lines that start in the scanned range, blank or not; a last line without a line break also
  /// counts.
  std::int64_t num_lines = 0;
};

/// Finds the lines whose first byte is in `range`, numbered from 0. The last line may extend past the range.
/// Any division of a file into ranges yields the lines of the whole file, if each range's line numbers are
/// increased by the `num_lines` of all ranges before it.
///
/// A line that consists of white space is blank: it is counted but not returned. The last line need not end
/// with a line break. A UTF-8 byte order mark at the start of the file is skipped. The range is clipped to
/// the file.
///
/// Reads the range, the byte before it and the rest of its last line. O(bytes read). Throws IoError if
/// reading fails, and InputError if the range includes the start of a file that appears to be UTF-16.
[[nodiscard]] LineScan scan_lines(const InputFile& file, ByteRange range);
/// Scans the whole file.
[[nodiscard]] LineScan scan_lines(const InputFile& file);

}  // namespace evenkeel
