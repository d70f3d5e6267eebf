#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace evenkeel {

/// A file that grows while others read it: what was appended is there at once, in whole pieces, until the
/// program or the machine dies in the middle of one.
///
/// Every error is an IoError that names the file and the system's reason.
class AppendedFile {
 public:
  /// Keeps the first `kept` bytes of what is there; makes the file where it is missing. Refuses a name that
  /// is taken by anything but a regular file, symbolic links included.
  explicit AppendedFile(std::filesystem::path path, std::int64_t kept = 0);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  void append(std::string_view text);
  /// Tells of what the system could not write until now. Call once, last.
  void close();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace evenkeel
