#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/input_file.hpp"
#include "io/files/lines.hpp"
#include "support/report_of.hpp"

namespace evenkeel::testing_support {

/// A file with this content that exists as long as the object. `content` may be omitted if the code under
/// test writes it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& ending = ".txt") : path_(unused_path(ending)) {}
  TemporaryFile(std::string_view content, const std::string& ending) : TemporaryFile(ending) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string content() const {
    std::ostringstream text;
    text << std::ifstream(path_, std::ios::binary).rdbuf();
    return text.str();
  }
  /// Returns "PATH:LINE", as error messages have it.
  [[nodiscard]] std::string line(int number) const { return path_.string() + ":" + std::to_string(number); }

 private:
  static std::filesystem::path unused_path(const std::string& ending) {
    static int count = 0;
    return testing::TempDir() + "evenkeel_io_" + std::to_string(::getpid()) + "_" + std::to_string(count++) +
           ending;
  }

  std::filesystem::path path_;
};

inline LineScan scan_whole(const std::filesystem::path& path) {
  return scan_lines(InputFile(path));
}

/// Returns how many files in the folder of `path`, including itself, have a name that starts with its name,
/// as a leftover temporary file would.
inline int files_named_like(const std::filesystem::path& path) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path.parent_path())) {
    count += entry.path().filename().string().starts_with(path.filename().string()) ? 1 : 0;
  }
  return count;
}

}  // namespace evenkeel::testing_support
