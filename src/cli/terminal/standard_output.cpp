#include "cli/terminal/standard_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <iostream>
#include <system_error>
#include <utility>

#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

constexpr std::size_t buffer_bytes = 1 << 16;
constexpr int status_of_sigpipe = 128 + SIGPIPE;

// Opened the wrong way round, so that using it fails as using a closed one does.
void hold_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is this one. Without /dev/null there is no better place either.
    static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

class StandardOutput::Buffer : public std::streambuf {
 public:
  Buffer() { clear(); }

  /// The errno value of the first write that failed since the last call; 0 when none did.
  [[nodiscard]] int take_failure() { return std::exchange(failure_, 0); }
  [[nodiscard]] bool reader_left() const { return reader_left_; }

 protected:
  int_type overflow(int_type character) override {
    if (!drain()) return traits_type::eof();
    if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
    return sputc(traits_type::to_char_type(character));
  }

  int sync() override { return drain() ? 0 : -1; }

 private:
  void clear() { setp(bytes_.data(), bytes_.data() + bytes_.size()); }

  bool drain() {
    for (const char* next = pbase(); next < pptr() && !reader_left_ && failure_ == 0;) {
      const ssize_t written = ::write(STDOUT_FILENO, next, static_cast<std::size_t>(pptr() - next));
      if (written >= 0) {
        next += written;
      } else if (errno == EPIPE) {
        reader_left_ = true;
      } else if (errno != EINTR) {
        failure_ = errno;
      }
    }
    clear();
    return failure_ == 0;
  }

  std::array<char, buffer_bytes> bytes_{};
  int failure_ = 0;
  bool reader_left_ = false;
};

StandardOutput::StandardOutput() : buffer_(std::make_unique<Buffer>()) {
  hold_closed_descriptors();
  before_ = std::cout.rdbuf(buffer_.get());
}

StandardOutput::~StandardOutput() {
  std::cout.rdbuf(before_);
}

void StandardOutput::flush() {
  std::cout.flush();
  auto* buffer = dynamic_cast<Buffer*>(std::cout.rdbuf());
  const int failure = buffer == nullptr ? 0 : buffer->take_failure();
  if (failure == 0) return;
  std::cout.clear();
  throw IoError("standard output", "cannot be written: " + std::generic_category().message(failure));
}

int StandardOutput::finish(int status) const {
  try {
    flush();
  } catch (const IoError& error) {
    std::cerr << "evenkeel: error: " << error.what() << '\n';
    return status == 0 ? 1 : status;
  }
  return status == 0 && buffer_->reader_left() ? status_of_sigpipe : status;
}

}  // namespace evenkeel::cli
