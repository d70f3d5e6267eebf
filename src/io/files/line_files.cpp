#include "io/files/line_files.hpp"

#include <algorithm>
#include <utility>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

std::vector<std::string> paths_of(std::span<const InputFile* const> files) {
  std::vector<std::string> paths;
  for (const InputFile* file : files) paths.push_back(file->path());
  return paths;
}

}  // namespace

LineNames::LineNames(std::vector<std::string> paths, std::vector<std::int64_t> first_lines)
    : paths_(std::move(paths)), first_lines_(std::move(first_lines)) {
  EVENKEEL_PRECONDITION(cheap, !paths_.empty() && paths_.size() == first_lines_.size(), paths_.size(),
                        first_lines_.size());
}

LineNames LineNames::after_earlier_samples(std::string body) {
  LineNames names({"earlier samples", std::move(body)}, {0, 1});
  names.has_earlier_samples_ = true;
  return names;
}

std::size_t LineNames::file_of(std::int64_t line) const {
  const auto after = std::ranges::upper_bound(first_lines_, line);
  // A file without lines has the same first line number as the next file, so choose the last file with this
  // number.
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - first_lines_.begin(), 1)) - 1;
}

std::string LineNames::where(std::int64_t line) const {
  const std::size_t file = file_of(line);
  return paths_[file] + ":" + std::to_string(line - first_lines_[file] + 1);
}

std::string LineNames::describe(std::int64_t line) const {
  const std::size_t file = file_of(line);
  if (file == 0 && has_earlier_samples_) return paths_.front();
  const std::string number = "line " + std::to_string(line - first_lines_[file] + 1);
  return paths_.size() == 1 ? number : number + " of " + paths_[file];
}

LineFiles::LineFiles(std::vector<const InputFile*> files, std::vector<std::int64_t> first_lines)
    : files_(std::move(files)), names_(paths_of(files_), std::move(first_lines)) {}

std::vector<FilePart> split_by_file(std::span<const std::int64_t> sizes, ByteRange range) {
  std::vector<FilePart> parts;
  std::int64_t begin = 0;
  for (std::size_t file = 0; file < sizes.size() && begin < range.end; ++file) {
    const ByteRange part{std::max(range.begin - begin, std::int64_t{0}),
                         std::min(range.end - begin, sizes[file])};
    if (part.begin < part.end) parts.push_back({file, part});
    begin += sizes[file];
  }
  return parts;
}

}  // namespace evenkeel
