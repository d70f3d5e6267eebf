#include "cli/terminal/terminal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>

#include "base/text_layout.hpp"
#include "base/utf8.hpp"
#include "cli/launcher.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::cli {
namespace {

std::string_view environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view{} : std::string_view(value);
}

int descriptor(Stream stream) {
  return stream == Stream::out ? STDOUT_FILENO : STDERR_FILENO;
}

bool is_terminal(Stream stream) {
  return !is_launched() && isatty(descriptor(stream)) != 0;
}

bool supports_escapes() {
  const std::string_view terminal = environment_variable("TERM");
  return !terminal.empty() && terminal != "dumb";
}

void print_message(std::string_view what, const char* color, std::string_view message) {
  const bool colored = is_colored(Stream::err) && !what.empty();
  std::string line = "evenkeel: ";
  line.append(colored ? color : "").append(what).append(colored ? "\033[0m" : "");
  line.append(what.empty() ? "" : " ").append(message).append("\n");
  // Written with a single call, so that lines of different ranks are not mixed.
  std::cerr << line << std::flush;
}

constexpr std::size_t buffer_bytes = 1 << 16;
constexpr int status_of_sigpipe = 128 + SIGPIPE;

// Opens /dev/null in place of each closed standard descriptor, in the wrong direction, so that using the
// descriptor fails as if it were closed.
void occupy_closed_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free descriptor is `descriptor`, so open() returns it. If /dev/null does not exist, the
    // descriptor stays closed.
    static_cast<void>(::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

bool is_colored(Stream stream) {
  if (!environment_variable("NO_COLOR").empty() || environment_variable("CLICOLOR") == "0") return false;
  const std::string_view force = environment_variable("CLICOLOR_FORCE");
  if (!force.empty() && force != "0") return true;
  return is_terminal(stream) && supports_escapes();
}

bool can_redraw(Stream stream) {
  return is_terminal(stream) && supports_escapes();
}

void print_error(std::string_view message) {
  print_message("error:", "\033[1;31m", message);
}

void print_warning(std::string_view message) {
  print_message("warning:", "\033[1;33m", message);
}

void print_note(std::string_view message) {
  print_message("", "", message);
}

std::string reading_note(const std::string& name, std::span<const std::filesystem::path> files) {
  std::int64_t bytes = 0;
  for (const std::filesystem::path& file : files) {
    std::error_code unknown;  // errors are reported when the file is opened
    const std::uintmax_t size = std::filesystem::file_size(file, unknown);
    if (!unknown) bytes += static_cast<std::int64_t>(size);
  }
  if (bytes < least_noted_bytes) return {};
  return "reading " + printable(name) + " (" + bytes_text(bytes) + ")";
}

class StandardOutput::Buffer : public std::streambuf {
 public:
  Buffer() { clear(); }

  /// Returns the errno value of the first failed write since the last call, or 0.
  [[nodiscard]] int pop_failure() { return std::exchange(failure_, 0); }
  [[nodiscard]] bool has_reader_exited() const { return reader_left_; }

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
  occupy_closed_descriptors();
  before_ = std::cout.rdbuf(buffer_.get());
}

StandardOutput::~StandardOutput() {
  std::cout.rdbuf(before_);
}

void StandardOutput::flush() {
  std::cout.flush();
  auto* buffer = dynamic_cast<Buffer*>(std::cout.rdbuf());
  const int failure = buffer == nullptr ? 0 : buffer->pop_failure();
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
  return status == 0 && buffer_->has_reader_exited() ? status_of_sigpipe : status;
}

}  // namespace evenkeel::cli
