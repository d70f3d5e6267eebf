#include "io/files/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

void require_replaceable(const std::filesystem::path& path) {
  std::error_code ignored;  // opening a file that cannot be examined fails later, with a better message
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status))
    throw IoError(path.string(), "is a folder, not a file", "Give the name of a file");
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw IoError(path.string(), "exists and is not a regular file", "Give another name");
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

/// Opens an unnamed file in the folder of `path`. The file is deleted when its descriptor is closed. Returns
/// -1 if this fails, for example because the file system does not support unnamed files.
int open_unlinked(const std::filesystem::path& path) {
#ifdef O_TMPFILE
  // Check for /proc, which linkat() requires later to give the file a name.
  if (::access("/proc/self/fd", X_OK) != 0) return -1;
  return ::open(folder_of(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
#else
  static_cast<void>(path);
  return -1;
#endif
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  require_replaceable(path_);
  descriptor_ = open_unlinked(path_);
  if (descriptor_ >= 0) return;
  create_with_temporary_name([this] {
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return descriptor_ >= 0;
  });
}

// Tries several names, since a crashed run may have left a temporary file behind, and another node that
// shares the folder may be using the same name.
template <typename Create>
void AtomicFile::create_with_temporary_name(Create&& create) {
  for (int attempt = 0;; ++attempt) {
    temporary_ = path_;
    temporary_ += ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(attempt);
    if (create()) return;
    if (errno == EEXIST) continue;
    const int failure = errno;
    temporary_.clear();
    throw IoError(path_.string(), "cannot be created: " + std::generic_category().message(failure),
                  failure == ENOENT ? "Check that the folder " + folder_of(path_).string() + " exists" : "");
  }
}

void AtomicFile::ensure_temporary_name() {
  if (!temporary_.empty()) return;
  const std::string nameless = "/proc/self/fd/" + std::to_string(descriptor_);
  create_with_temporary_name([&] {
    return ::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0;
  });
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  ensure_temporary_name();
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot be written");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be created or replaced");
  temporary_.clear();
}

void AtomicFile::commit_to_disk() {
  ensure_temporary_name();
  if (::fsync(descriptor_) != 0) fail("cannot be written to the disk");
  commit();
  const std::filesystem::path folder = folder_of(path_);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("cannot be written to the disk: its folder cannot be opened");
  const int failure = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  // Ignore EINVAL, because some file systems cannot sync folders. The file has already been renamed.
  if (failure != 0 && failure != EINVAL)
    throw system_error(path_.string(), "cannot be written to the disk", failure);
}

void AtomicFile::fail(const char* what) const {
  throw system_error(path_.string(), what, errno);
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void write_text_file_durably(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit_to_disk();
}

bool is_name_taken(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

AppendOnlyFile::AppendOnlyFile(std::filesystem::path path, std::int64_t kept) : path_(std::move(path)) {
  // With O_NONBLOCK, opening a pipe without a reader fails instead of waiting for one.
  descriptor_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (descriptor_ < 0) {
    const int failure = errno;
    std::error_code unknown;
    const std::filesystem::file_status entry = std::filesystem::symlink_status(path_, unknown);
    if (std::filesystem::exists(entry) && !std::filesystem::is_regular_file(entry))
      throw IoError(path_.string(), "exists and is not a regular file", "Move it away");
    throw system_error(path_.string(), "cannot be opened", failure);
  }
  struct stat status {};
  const bool is_file = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  const bool is_cut = is_file && ::ftruncate(descriptor_, static_cast<off_t>(kept)) == 0;
  if (is_cut) return;
  const int reason = errno;
  ::close(std::exchange(descriptor_, -1));
  if (!is_file) throw IoError(path_.string(), "exists and is not a regular file", "Move it away");
  throw system_error(path_.string(), "cannot be resized to " + std::to_string(kept) + " bytes", reason);
}

AppendOnlyFile::~AppendOnlyFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendOnlyFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AppendOnlyFile::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot be written");
}

void AppendOnlyFile::fail(const char* what) const {
  throw system_error(path_.string(), what, errno);
}

}  // namespace evenkeel
