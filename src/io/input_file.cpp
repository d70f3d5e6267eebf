#include "input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "evenkeel/base/error.hpp"
#include "system_error.hpp"

namespace evenkeel {
namespace {

/// The size of an open regular file, or an IoError.
std::int64_t regular_file_size(int descriptor, const std::string& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw system_error(path, "cannot be examined", errno);
  if (S_ISDIR(status.st_mode)) throw IoError(path, "is a folder; a file is needed");
  if (!S_ISREG(status.st_mode)) throw IoError(path, "is not a regular file", "Save the data to a file first");
  return status.st_size;
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : path_(path.string()) {
  // A pipe without a writer must not block the open, since it is refused anyway.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw system_error(path_, "cannot be opened", errno);
  try {
    size_ = regular_file_size(descriptor_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::read(std::span<char> out, std::int64_t offset) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(path_, "cannot be read", errno);
    if (got == 0) {
      throw IoError(path_, "ends at byte " + std::to_string(offset) + ", before what it should hold",
                    "Was it changed while it was read?");
    }
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
}

}  // namespace evenkeel
