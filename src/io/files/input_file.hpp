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

/// What the system says about an open file, and what tells one version of it from another. Nodes number
/// devices each in its own way, so that the device is left out.
struct FileVersion {
  std::int64_t bytes = 0;
  std::int64_t modified = 0;  ///< nanoseconds since 1970
  std::uint64_t inode = 0;

  friend constexpr bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// A regular file, open for reading at any place for as long as this object lives. It stays the file that was
/// opened: one that takes its name later (`mv`) is not looked at. A file that is written to while it is open
/// is an error at the next read, so that what two reads gave belongs together.
///
/// Every error is an IoError that names the file. Reads are local and may come from several threads.
class InputFile {
 public:
  /// Digests are made of blocks of this size; those of ranges between multiples of it add up.
  static constexpr std::int64_t digest_block = std::int64_t{1} << 20;

  /// Throws where the file is missing, cannot be read, or is a folder or a pipe.
  explicit InputFile(const std::filesystem::path& path);
  /// Takes over a descriptor that is open for reading. Errors call it `name`. Throws likewise.
  InputFile(std::string name, int descriptor);
  /// Bytes in memory, which must outlive it and stay as they are, read as a file is. Errors call it `name`.
  InputFile(std::string name, std::string_view content);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// When the file was opened.
  [[nodiscard]] const FileVersion& version() const noexcept { return version_; }
  [[nodiscard]] std::int64_t size() const noexcept { return version_.bytes; }

  /// Bytes from `offset` on, and where they are wanted.
  struct Piece {
    std::span<char> out;
    std::int64_t offset = 0;
  };

  /// Fills `out` with the bytes from `offset` on. A file that ends before that, or whose size or time is not
  /// what it was when it was opened, is an error.
  void read(std::span<char> out, std::int64_t offset) const;
  /// The same for many pieces, in order. The file is looked at once, after the last of them: what fails
  /// leaves them filled with what may not belong together.
  void read(std::span<const Piece> pieces) const;

  /// Lets the system bring these bytes into its cache, and does not wait for them. A hint, which never fails.
  void fetch(ByteRange range) const noexcept;

  /// A number that differs, but for chance, where bytes in the range differ. It finds accidents, not forgery.
  /// The range is cut to the file. O(bytes of the range), read in blocks.
  [[nodiscard]] std::uint64_t digest(ByteRange range) const;
  /// The same of 64 places over the file, its two ends among them, of 16 KiB each; of all of a smaller file.
  [[nodiscard]] std::uint64_t sampled_digest() const;

 private:
  void examine_or_close();
  [[nodiscard]] ssize_t read_some(std::span<char> out, std::int64_t offset) const;
  void fill(const Piece& piece) const;
  void require_unchanged() const;

  std::string path_;
  std::string_view content_;  // of bytes in memory
  int descriptor_ = -1;       // otherwise
  FileVersion version_;
};

/// Ranges of files that are about to be read, in whatever order. Asked for all at once, in the order of the
/// files, they keep a disk busy; read one after the other, a shuffled share waits for the disk at each
/// sample. Ranges that lie within 64 KiB of each other are asked for with what lies between. What comes stays
/// in the system's cache and takes no memory of the process. Only a hint: what could not be asked for is read
/// when its time comes. The files must live until start() returns.
class ReadAhead {
 public:
  /// Asked for at most, with what lies between, so that what comes early is not thrown out by what comes
  /// late.
  static constexpr std::int64_t max_bytes = std::int64_t{256} << 20;

  /// Takes note of a range, until there are max_bytes of them. Precondition: it is within the file.
  void add(const InputFile& file, ByteRange range);
  /// Of all ranges that it took note of.
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }
  /// Asks the system for all of them and does not wait until they are there. O(ranges log ranges).
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
