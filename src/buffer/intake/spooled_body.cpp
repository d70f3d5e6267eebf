#include "buffer/intake/spooled_body.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {
namespace {

constexpr const char* body_name = "body";

int nameless_file() {
#ifdef __linux__
  const int descriptor = ::memfd_create("evenkeel-body", MFD_CLOEXEC);
#else
  std::FILE* const file = std::tmpfile();
  const int descriptor = file == nullptr ? -1 : ::fcntl(::fileno(file), F_DUPFD_CLOEXEC, 0);
  if (file != nullptr) (void)std::fclose(file);
#endif
  if (descriptor < 0) throw system_error(body_name, "cannot be kept in memory", errno);
  return descriptor;
}

}  // namespace

SpooledBody::SpooledBody() : descriptor_(nameless_file()) {}

SpooledBody::SpooledBody(SpooledBody&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      mapped_(std::exchange(other.mapped_, nullptr)),
      file_(std::move(other.file_)) {}

SpooledBody::~SpooledBody() {
  if (mapped_ != nullptr) ::munmap(const_cast<char*>(mapped_), static_cast<std::size_t>(size_));
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SpooledBody::write(std::span<const char> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error(body_name, "cannot be kept in memory", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += written;
  }
}

SpooledBody SpooledBody::unpacked(Packing packing, std::int64_t most_bytes) {
  SpooledBody out;
  unpack(file(), packing, [&](std::span<const char> bytes) {
    if (out.size() + std::ssize(bytes) > most_bytes) {
      throw LimitError(body_name,
                       "has more than " + std::to_string(most_bytes) + " bytes when it is unpacked",
                       "Send fewer samples in a request");
    }
    out.write(bytes);
  });
  return out;
}

const InputFile& SpooledBody::file() {
  if (file_) return *file_;
  if (size_ > 0) {
    void* const mapped =
        ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, descriptor_, 0);
    if (mapped == MAP_FAILED) throw system_error(body_name, "cannot be read", errno);
    mapped_ = static_cast<const char*>(mapped);
  }
  file_ = std::make_unique<InputFile>(body_name, std::exchange(descriptor_, -1));
  return *file_;
}

}  // namespace evenkeel
