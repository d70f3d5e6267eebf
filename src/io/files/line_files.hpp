#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/files/lines.hpp"

namespace evenkeel {

/// Converts line numbers to the names of lines in errors. Lines are numbered consecutively over all files.
class LineNames {
 public:
  /// Names the lines of a single file.
  LineNames(std::string path) : paths_{std::move(path)}, first_lines_{0} {}  // NOLINT(*-explicit-*)
  /// `first_lines` contains the number of each file's first line, in ascending order from 0. Precondition:
  /// `paths` and `first_lines` have the same, nonzero size.
  LineNames(std::vector<std::string> paths, std::vector<std::int64_t> first_lines);
  /// Names the lines of a request to a buffer, `body`: line 0 represents all earlier samples, and the
  /// request's lines follow.
  static LineNames after_earlier_samples(std::string body);

  /// Returns whether line 0 represents all earlier samples.
  [[nodiscard]] bool has_earlier_samples() const noexcept { return has_earlier_samples_; }
  /// Returns the file that contains the line. O(log files).
  [[nodiscard]] std::size_t file_of(std::int64_t line) const;
  /// Returns "PATH:LINE", where LINE is counted from 1 in each file.
  [[nodiscard]] std::string where(std::int64_t line) const;
  /// Returns "line LINE" for a single file, otherwise "line LINE of PATH" or "earlier samples".
  [[nodiscard]] std::string describe(std::int64_t line) const;

 private:
  std::vector<std::string> paths_;
  std::vector<std::int64_t> first_lines_;
  bool has_earlier_samples_ = false;
};

/// Open files whose lines are numbered consecutively: a LineRef's number determines its file, and its offset
/// is a position in that file. Does not own the files.
class LineFiles {
 public:
  LineFiles(const InputFile& file) : files_{&file}, names_(file.path()) {}  // NOLINT(*-explicit-*)
  /// For `first_lines` and its precondition, see LineNames.
  LineFiles(std::vector<const InputFile*> files, std::vector<std::int64_t> first_lines);

  [[nodiscard]] const LineNames& names() const noexcept { return names_; }
  [[nodiscard]] const InputFile& file_of(const LineRef& line) const {
    return files_.size() == 1 ? *files_.front() : *files_[names_.file_of(line.number)];
  }

 private:
  std::vector<const InputFile*> files_;
  LineNames names_;
};

/// A byte range in one of several files.
struct FilePart {
  std::size_t file = 0;
  ByteRange range;

  friend constexpr bool operator==(const FilePart&, const FilePart&) = default;
};

/// Splits a byte range of concatenated files at file boundaries. `sizes` contains the size of each file in
/// bytes. Returns nonempty parts in order.
[[nodiscard]] std::vector<FilePart> split_by_file(std::span<const std::int64_t> sizes, ByteRange range);

}  // namespace evenkeel
