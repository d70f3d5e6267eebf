#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace evenkeel {

/// A file that appears under its name whole or not at all: it is written without a name, where the file
/// system has such files, or under a temporary one in the same folder, and renamed by commit(). Dropped
/// without it, nothing is left behind and an older file stays as it was; nor is where the process is killed,
/// as long as the file has no name. This protects readers and survives a crash of the program; a loss of
/// power only after commit_to_disk().
///
/// Every error is an IoError that names the file and the system's reason.
class AtomicFile {
 public:
  /// Refuses a name that is taken by anything but a regular file: a folder, a device, a pipe.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Writes over bytes that were written before, from `offset` on. Precondition: there are so many.
  void rewrite(std::span<const std::byte> bytes, std::int64_t offset);
  /// Closes the file and gives it its name. Call this or the next once, last.
  void commit();
  /// The same, after what was written has reached the disk, and waits until the name has, too: it survives a
  /// loss of power.
  void commit_to_disk();

 private:
  template <typename Take>
  void take_temporary_name(Take&& take);
  void have_name();
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// A file of this text, as commit() makes it.
void write_text_file(const std::filesystem::path& path, std::string_view text);
/// A file of this text, as commit_to_disk() makes it.
void write_text_to_disk(const std::filesystem::path& path, std::string_view text);

/// Whether anything has this name, even a link to nothing. What cannot be examined is not there.
[[nodiscard]] bool is_taken(const std::filesystem::path& path);

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
