#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/files/lines.hpp"

namespace evenkeel {

/// Metadata of an open file, used to detect whether the file has changed or ranks have opened different
/// files. Does not include the device number, which differs between nodes.
struct FileVersion {
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  ///< time of the last modification, in nanoseconds since 1970
  std::uint64_t inode = 0;

  friend constexpr bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// A regular file, open for reading for the lifetime of this object, or bytes in memory. Reads always refer
/// to the file that was opened, even if another file is renamed to its path. If the file is modified while it
/// is open, the next read fails, so the results of several reads are consistent.
///
/// Every error is an IoError naming the file. Reads are local and thread-safe.
class InputFile {
 public:
  /// Size in bytes of the blocks over which digests are computed. If `b` is a multiple of this size,
  /// digest({a, c}) == digest({a, b}) + digest({b, c}), so ranks can divide the work.
  static constexpr std::int64_t digest_block = std::int64_t{1} << 20;

  /// Throws if the file is missing, cannot be opened, or is not a regular file.
  explicit InputFile(const std::filesystem::path& path);
  /// Takes ownership of a descriptor that is open for reading, even if the constructor throws. Throws IoError
  /// if the descriptor does not refer to a regular file. `name` is the file's name in errors.
  InputFile(std::string name, int descriptor);
  /// Makes bytes in memory readable like a file. The bytes must outlive this object and must not change.
  /// `name` is their name in errors.
  InputFile(std::string name, std::string_view content);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Returns the metadata of the file when it was opened.
  [[nodiscard]] const FileVersion& version() const noexcept { return version_; }
  [[nodiscard]] std::int64_t size() const noexcept { return version_.bytes; }

  /// A range of bytes that begins at `offset`, and the memory to read it into.
  struct Piece {
    std::span<char> out;
    std::int64_t offset = 0;
  };

  /// Fills `out` with the bytes that begin at `offset`. Throws if the file ends before `out` is full, or if
  /// its size or modification time differs from version().
  void read(std::span<char> out, std::int64_t offset) const;
  /// Reads several pieces, in order. The version is checked only once, after the last piece, so if this
  /// throws, any `out` may contain changed data.
  void read(std::span<const Piece> pieces) const;

  /// Asks the operating system to read these bytes into its page cache, and returns without waiting. This is
  /// only a hint, so it never fails.
  void prefetch(ByteRange range) const noexcept;

  /// Returns a digest of the bytes in the range, clipped to the file. Different bytes are unlikely to have
  /// equal digests unless they were constructed for that purpose. O(bytes of the range), read in blocks.
  [[nodiscard]] std::uint64_t digest(ByteRange range) const;
  /// Returns a digest of 64 evenly spaced pieces of 16 KiB each, which include both ends of the file. Returns
  /// the digest of the whole file if it has at most 1 MiB.
  [[nodiscard]] std::uint64_t sampled_digest() const;

 private:
  void read_version_or_close();
  [[nodiscard]] ssize_t read_some(std::span<char> out, std::int64_t offset) const;
  void fill(const Piece& piece) const;
  void require_unchanged() const;

  std::string path_;
  std::string_view content_;  // content of a file in memory; otherwise empty
  int descriptor_ = -1;       // descriptor of a file on disk; -1 for a file in memory
  FileVersion version_;
};

/// Prefetches ranges of files that are about to be read in any order. Requesting all ranges at once, in file
/// order, keeps the disk busy, whereas reading shuffled samples one by one would wait for the disk at each
/// sample. Ranges within 64 KiB of each other are requested together with the bytes between them. The data is
/// stored in the operating system's page cache and does not use memory of the process. This is only a hint:
/// all other data is read from the disk on demand. The files must exist until start() returns.
class ReadAhead {
 public:
  /// Limit on the total number of requested bytes, including the bytes between ranges. Without a limit, later
  /// data might evict earlier data from the page cache before it is read.
  static constexpr std::int64_t max_bytes = std::int64_t{256} << 20;

  /// Adds a range. Ignores it if the total would exceed max_bytes. Precondition: the range is within the
  /// file.
  void add(const InputFile& file, ByteRange range);
  /// Returns the total size of the added ranges.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  /// Requests all added ranges from the system, without waiting for the data, and removes them from this
  /// object. O(ranges log ranges).
  void start();

 private:
  struct Piece {
    const InputFile* file = nullptr;
    ByteRange range;
  };

  std::vector<Piece> pieces_;
  std::int64_t bytes_ = 0;
};

}  // namespace evenkeel
