#include "io/files/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t num_samples = 64;
constexpr std::int64_t sample_bytes = std::int64_t{16} << 10;
/// Maximum size in bytes of a prefetch request; Linux may truncate larger requests.
constexpr std::int64_t fetched_bytes = std::int64_t{128} << 10;
constexpr const char* while_in_use = "Do not modify a file that is in use: write a new one and start again";

FileVersion version_of(const struct stat& status) {
  constexpr std::int64_t nanoseconds = 1'000'000'000;
#ifdef __APPLE__
  const timespec& written = status.st_mtimespec;
#else
  const timespec& written = status.st_mtim;
#endif
  return {status.st_size, written.tv_sec * nanoseconds + written.tv_nsec, status.st_ino};
}

struct stat file_status(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw system_error(path, "cannot be examined", errno);
  return status;
}

/// Returns the version of an open file. Throws IoError if it is not a regular file.
FileVersion regular_file_version(int descriptor, const std::string& path) {
  const struct stat status = file_status(descriptor, path);
  if (S_ISDIR(status.st_mode)) throw IoError(path, "is a folder, not a file", "Name a file");
  if (!S_ISREG(status.st_mode)) throw IoError(path, "is not a regular file", "Save the data to a file first");
  return version_of(status);
}

/// Returns a digest of the bytes and of their offset in the file.
std::uint64_t digest_of(std::span<const char> bytes, std::int64_t offset) {
  std::uint64_t digest = mix_64(static_cast<std::uint64_t>(offset) + 1) + bytes.size();
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t taken = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), taken);
    digest = mix_64(digest ^ word) + 1;
    bytes = bytes.subspan(taken);
  }
  return digest;
}

/// Maximum distance in bytes between two ranges that are combined into one request to the disk. A request may
/// cost as much as reading about 16 KiB, and if other ranks read the same file, they probably need the bytes
/// between the ranges.
constexpr std::int64_t gap_bytes = 1 << 16;

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path.string()) {
  // O_NONBLOCK prevents waiting for the writer of a pipe; pipes are refused afterwards.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw system_error(path_, "cannot be opened", errno);
  read_version_or_close();
}

InputFile::InputFile(std::string name, int descriptor) : path_(std::move(name)), descriptor_(descriptor) {
  read_version_or_close();
}

InputFile::InputFile(std::string name, std::string_view content) : path_(std::move(name)), content_(content) {
  version_.bytes = static_cast<std::int64_t>(content.size());
}

void InputFile::read_version_or_close() {
  try {
    version_ = regular_file_version(descriptor_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::span<char> out, std::int64_t offset) const {
  const Piece piece{out, offset};
  read(std::span(&piece, 1));
}

void InputFile::read(std::span<const Piece> pieces) const {
  for (const Piece& piece : pieces) fill(piece);
  // Check after reading: a change made before or during the read is then visible in the modification time.
  require_unchanged();
}

ssize_t InputFile::read_some(std::span<char> out, std::int64_t offset) const {
  if (descriptor_ >= 0) return ::pread(descriptor_, out.data(), out.size(), offset);
  const auto begin = static_cast<std::size_t>(std::clamp<std::int64_t>(offset, 0, size()));
  const std::string_view part = content_.substr(begin, out.size());
  std::ranges::copy(part, out.begin());
  return static_cast<ssize_t>(part.size());
}

void InputFile::fill(const Piece& piece) const {
  auto [out, offset] = piece;
  while (!out.empty()) {
    const ssize_t got = read_some(out, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(path_, "cannot be read", errno);
    if (got == 0) {
      require_unchanged();
      throw IoError(path_, "ends at byte " + std::to_string(offset) + ", earlier than expected",
                    while_in_use);
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

void InputFile::prefetch(ByteRange range) const noexcept {
  if (descriptor_ < 0) return;
#ifdef POSIX_FADV_WILLNEED  // systems without this hint read the data on demand
  for (; range.begin < range.end; range.begin += fetched_bytes)
    ::posix_fadvise(descriptor_, range.begin, std::min(fetched_bytes, range.size()), POSIX_FADV_WILLNEED);
#else
  static_cast<void>(range);
#endif
}

std::uint64_t InputFile::digest(ByteRange range) const {
  range = {std::max<std::int64_t>(range.begin, 0), std::min(range.end, size())};
  std::vector<char> block;
  std::uint64_t sum = 0;
  while (range.begin < range.end) {
    const std::int64_t next = std::min(range.end, (range.begin / digest_block + 1) * digest_block);
    block.resize(static_cast<std::size_t>(next - range.begin));
    read(block, range.begin);
    sum += digest_of(block, range.begin);
    range.begin = next;
  }
  return sum;
}

std::uint64_t InputFile::sampled_digest() const {
  if (size() <= num_samples * sample_bytes) return digest({0, size()});
  std::uint64_t sum = 0;
  const std::int64_t last = size() - sample_bytes;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    // Avoid last * i, which would exceed 63 bits for files of 150 petabytes.
    const std::int64_t begin =
        last / (num_samples - 1) * i + last % (num_samples - 1) * i / (num_samples - 1);
    sum += digest({begin, begin + sample_bytes});
  }
  return sum;
}

void InputFile::require_unchanged() const {
  if (descriptor_ < 0) return;
  const FileVersion now = version_of(file_status(descriptor_, path_));
  if (now.bytes != version_.bytes) {
    throw IoError(path_,
                  "has changed while in use: it had " + format_plain_count(version_.bytes, "byte") +
                      " when it was opened and has " + std::to_string(now.bytes) + " now",
                  while_in_use);
  }
  if (now.modified != version_.modified) {
    throw IoError(path_, "has changed while in use: it was written to after it was opened", while_in_use);
  }
}

void ReadAhead::add(const InputFile& file, ByteRange range) {
  if (range.size() <= 0 || bytes_ + range.size() > max_bytes) return;
  pieces_.push_back({&file, range});
  bytes_ += range.size();
}

void ReadAhead::start() {
  std::ranges::sort(pieces_, [](const Piece& a, const Piece& b) {
    if (a.file != b.file) return std::less<>()(a.file, b.file);
    return a.range.begin < b.range.begin;
  });
  std::int64_t spare = max_bytes - bytes_;  // number of bytes between ranges that may still be requested
  for (std::size_t first = 0; first < pieces_.size();) {
    ByteRange range = pieces_[first].range;
    std::size_t next = first + 1;
    for (; next < pieces_.size() && pieces_[next].file == pieces_[first].file &&
           pieces_[next].range.begin <= range.end + std::min(gap_bytes, spare);
         ++next) {
      spare -= std::max<std::int64_t>(pieces_[next].range.begin - range.end, 0);
      range.end = std::max(range.end, pieces_[next].range.end);
    }
    pieces_[first].file->prefetch(range);
    first = next;
  }
  pieces_.clear();
  bytes_ = 0;
}

}  // namespace evenkeel
