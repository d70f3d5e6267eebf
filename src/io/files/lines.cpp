#include "io/files/lines.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "evenkeel/base/error.hpp"
#include "io/files/input_file.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t line_block_bytes = 1 << 20;
/// Size in bytes of the blocks that are read after the end of the range, where only the rest of the range's
/// last line is needed.
constexpr std::int64_t tail_block_bytes = 1 << 16;
constexpr std::string_view white_space = " \t\r\f\v";
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// Finds the lines that start in a range. The content of the file is passed to feed() in consecutive pieces.
class LineCutter {
 public:
  explicit LineCutter(ByteRange range) : range_(range), inside_(range.begin == 0) {}

  /// Returns whether the scan is complete: `position` is not before the end of the range, and the current
  /// line does not start in the range.
  [[nodiscard]] bool is_done(std::int64_t position) const noexcept {
    return !inside_ && position >= range_.end;
  }

  void feed(std::string_view piece, std::int64_t offset) {
    const std::int64_t end = offset + static_cast<std::int64_t>(piece.size());
    while (!piece.empty() && !is_done(end - static_cast<std::int64_t>(piece.size()))) {
      const std::size_t newline = piece.find('\n');
      extend_line(piece.substr(0, newline));
      if (newline == std::string_view::npos) return;
      piece.remove_prefix(newline + 1);
      const std::int64_t next = end - static_cast<std::int64_t>(piece.size());
      if (inside_) end_line(next - 1);
      begin_line(next);
    }
  }

  /// Returns the lines that were found. `size` is the size of the file. Call this once, after feeding
  /// everything up to the end of the file, or until is_done() returns true.
  LineScan finish(std::int64_t size) {
    if (inside_ && start_ < size) end_line(size);
    return std::move(scan_);
  }

 private:
  void begin_line(std::int64_t start) {
    start_ = start;
    inside_ = start < range_.end;
    blank_ = true;
    last_ = '\0';
  }

  void extend_line(std::string_view part) {
    if (!inside_ || part.empty()) return;
    blank_ = blank_ && part.find_first_not_of(white_space) == std::string_view::npos;
    last_ = part.back();
  }

  void end_line(std::int64_t end) {
    const std::int64_t bytes = end - start_ - (last_ == '\r' ? 1 : 0);
    if (!blank_) scan_.lines.push_back({start_, bytes, scan_.num_lines});
    ++scan_.num_lines;
  }

  ByteRange range_;
  LineScan scan_;
  bool inside_;  ///< whether the current line starts in the range
  std::int64_t start_ = 0;
  bool blank_ = true;
  char last_ = '\0';
};

/// Throws InputError if the file is encoded in UTF-16, which some editors and shells on Windows write.
void reject_utf_16(const InputFile& file) {
  std::array<char, 2> start{};
  if (file.size() < std::ssize(start)) return;
  file.read(start, 0);
  const std::string_view mark(start.data(), start.size());
  if (mark == "\xff\xfe" || mark == "\xfe\xff")
    throw InputError(file.path(), "is encoded in UTF-16, but must be UTF-8", "Save it as UTF-8");
}

void skip_byte_order_mark(const InputFile& file, std::vector<LineRef>& lines) {
  constexpr auto mark_bytes = static_cast<std::int64_t>(byte_order_mark.size());
  if (lines.empty() || lines.front().offset != 0 || lines.front().bytes < mark_bytes) return;
  std::array<char, byte_order_mark.size()> start{};
  file.read(start, 0);
  if (std::string_view(start.data(), start.size()) != byte_order_mark) return;
  lines.front().offset += mark_bytes;
  lines.front().bytes -= mark_bytes;
  if (lines.front().bytes == 0) lines.erase(lines.begin());
}

}  // namespace

std::vector<ByteRange> split_bytes(std::int64_t bytes, int parts) {
  if (parts < 1) throw InputError("parts", "is " + std::to_string(parts) + "; it must be at least 1");
  if (bytes < 0) throw InputError("bytes", "is " + std::to_string(bytes) + "; it cannot be negative");
  std::vector<ByteRange> ranges;
  ranges.reserve(static_cast<std::size_t>(parts));
  std::int64_t begin = 0;
  for (int part = 0; part < parts; ++part) {
    const std::int64_t end = begin + bytes / parts + (part < bytes % parts ? 1 : 0);
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

LineScan scan_lines(const InputFile& file, ByteRange range) {
  range = {std::max<std::int64_t>(range.begin, 0), std::min(range.end, file.size())};
  if (range.begin >= range.end) return {};
  if (range.begin == 0) reject_utf_16(file);

  LineCutter cutter(range);
  std::vector<char> block;
  // The byte before the range is needed to decide whether a line starts at the range's first byte.
  std::int64_t position = std::max<std::int64_t>(range.begin - 1, 0);
  while (position < file.size() && !cutter.is_done(position)) {
    const std::int64_t wanted =
        position < range.end ? std::min(line_block_bytes, range.end - position) : tail_block_bytes;
    block.resize(static_cast<std::size_t>(std::min(wanted, file.size() - position)));
    file.read(block, position);
    cutter.feed({block.data(), block.size()}, position);
    position += static_cast<std::int64_t>(block.size());
  }
  LineScan scan = cutter.finish(file.size());
  skip_byte_order_mark(file, scan.lines);
  return scan;
}

LineScan scan_lines(const InputFile& file) {
  return scan_lines(file, {0, file.size()});
}

}  // namespace evenkeel
