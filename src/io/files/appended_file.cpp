#include "io/files/appended_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {

AppendedFile::AppendedFile(std::filesystem::path path, std::int64_t kept) : path_(std::move(path)) {
  // Not blocking, so that a pipe without a reader is refused and not waited for.
  descriptor_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (descriptor_ < 0) fail("cannot be opened");
  struct stat status {};
  const bool is_file = ::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  const bool is_cut = is_file && ::ftruncate(descriptor_, static_cast<off_t>(kept)) == 0;
  if (is_cut) return;
  const int reason = errno;
  ::close(std::exchange(descriptor_, -1));
  if (!is_file) throw IoError(path_.string(), "exists and is not a regular file");
  throw system_error(path_.string(), "cannot be shortened", reason);
}

AppendedFile::~AppendedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AppendedFile::append(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AppendedFile::close() {
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot be written");
}

void AppendedFile::fail(const char* what) const {
  throw system_error(path_.string(), what, errno);
}

}  // namespace evenkeel
