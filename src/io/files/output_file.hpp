#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

namespace evenkeel {

/// A file that appears under its name completely or not at all. The content is written to an unnamed file
/// (O_TMPFILE) if the file system supports this, otherwise to a file with a temporary name in the same
/// folder; commit() gives the file its final name. If an AtomicFile is destroyed without commit(), it leaves
/// no file behind, and an older file of the same name remains unchanged. If the process is killed, at most a
/// file with a temporary name is left behind. Readers therefore never see an incomplete file, even if the
/// program crashes. After commit_to_disk(), the file also survives a power failure.
///
/// Every error is an IoError naming the file and the reason.
class AtomicFile {
 public:
  /// Throws if the name belongs to anything but a regular file, such as a folder, a device or a pipe.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  /// Closes the file and renames it to its final name. After all writes, call exactly one of commit() and
  /// commit_to_disk(); otherwise the destructor discards the file.
  void commit();
  /// Acts like commit(), but also waits until both the content and the name have been written to the disk, so
  /// the file survives a power failure.
  void commit_to_disk();

 private:
  template <typename Create>
  void create_with_temporary_name(Create&& create);
  void ensure_temporary_name();
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// Writes a file with this text and calls commit().
void write_text_file(const std::filesystem::path& path, std::string_view text);
/// Writes a file with this text and calls commit_to_disk().
void write_text_file_durably(const std::filesystem::path& path, std::string_view text);

/// Returns whether the name exists, even if it is a dangling link; false if this cannot be determined.
[[nodiscard]] bool is_name_taken(const std::filesystem::path& path);

/// A file to which text is appended while other processes read it. Readers see each append immediately and as
/// a whole, unless the write fails, or the program or the machine crashes during it.
///
/// Every error is an IoError naming the file and the reason.
class AppendOnlyFile {
 public:
  /// Truncates an existing file to its first `kept` bytes, or creates the file. A shorter file is extended
  /// with zeros. Throws if the path exists and is not a regular file, even if it is a link to one.
  explicit AppendOnlyFile(std::filesystem::path path, std::int64_t kept = 0);
  ~AppendOnlyFile();
  AppendOnlyFile(const AppendOnlyFile&) = delete;
  AppendOnlyFile& operator=(const AppendOnlyFile&) = delete;

  void append(std::string_view text);
  /// Closes the file. Throws if the system could not write all content. Call this only once, at the end.
  void close();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace evenkeel
