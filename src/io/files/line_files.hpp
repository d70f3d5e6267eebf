#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/files/lines.hpp"

namespace evenkeel {

/// How people find a line that is known by its number among the lines of one or several files, whose lines
/// are counted on from one file to the next.
class LineNames {
 public:
  /// All lines are of one file.
  LineNames(std::string path) : paths_{std::move(path)}, first_lines_{0} {}  // NOLINT(*-explicit-*)
  /// `first_lines` has the number of the first line of each file, and never falls; it starts at 0.
  /// Precondition: as many paths as numbers, and at least one.
  LineNames(std::vector<std::string> paths, std::vector<std::int64_t> first_lines);

  /// The file that a line is in. O(log files).
  [[nodiscard]] std::size_t file_of(std::int64_t line) const;
  /// "PATH:LINE", counted from 1 in the line's file.
  [[nodiscard]] std::string where(std::int64_t line) const;
  /// "line LINE" where there is one file, else "line LINE of PATH".
  [[nodiscard]] std::string words(std::int64_t line) const;

 private:
  std::vector<std::string> paths_;
  std::vector<std::int64_t> first_lines_;
};

/// Open files whose lines are numbered on from one to the next: a LineRef's number says which file it is in,
/// its offset where it stands in that file. Does not own the files.
class LineFiles {
 public:
  LineFiles(const InputFile& file) : files_{&file}, names_(file.path()) {}  // NOLINT(*-explicit-*)
  /// As LineNames.
  LineFiles(std::vector<const InputFile*> files, std::vector<std::int64_t> first_lines);

  [[nodiscard]] const LineNames& names() const noexcept { return names_; }
  [[nodiscard]] const InputFile& file_of(const LineRef& line) const {
    return files_.size() == 1 ? *files_.front() : *files_[names_.file_of(line.number)];
  }

 private:
  std::vector<const InputFile*> files_;
  LineNames names_;
};

/// A range of bytes of one of several files.
struct FilePart {
  std::size_t file = 0;
  ByteRange range;

  friend constexpr bool operator==(const FilePart&, const FilePart&) = default;
};

/// What is in `range` of files of these sizes that stand one after the other: parts in order, none empty.
[[nodiscard]] std::vector<FilePart> parts_of(std::span<const std::int64_t> sizes, ByteRange range);

}  // namespace evenkeel
