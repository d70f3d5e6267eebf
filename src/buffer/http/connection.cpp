#include "buffer/http/connection.hpp"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text/parse_number.hpp"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;

constexpr auto longest_head = 10s;
constexpr auto longest_body = 120s;
constexpr auto longest_silence = 10s;  // maximum time without progress while a message is sent or received
constexpr auto longest_idle = 5s;      // maximum time between an answer and the next request
constexpr auto longest_linger = 5s;
constexpr std::size_t max_head_bytes = std::size_t{64} << 10;
constexpr std::size_t ahead_bytes = std::size_t{16} << 10;
constexpr std::size_t max_unsent = std::size_t{16} << 10;
// Maximum length in bytes of a chunk-size or trailer line.
constexpr std::size_t max_line_bytes = std::size_t{8} << 10;
constexpr int max_trailers = 100;

}  // namespace

Connection::Connection(socket_t socket, SSL_CTX* tls)
    : socket_(socket), tls_(tls == nullptr ? nullptr : ::SSL_new(tls), ::SSL_free) {
  ::fcntl(socket_, F_SETFL, ::fcntl(socket_, F_GETFL) | O_NONBLOCK);
  if (tls_) ::SSL_set_fd(tls_.get(), socket_);
}

Connection::~Connection() {
  if (tls_) ::SSL_shutdown(tls_.get());
  ::shutdown(socket_, SHUT_RDWR);
  ::close(socket_);
}

void Connection::interrupt() noexcept {
  ::shutdown(socket_, SHUT_RDWR);
}

bool Connection::wait(short events, Clock::time_point until) const {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
    if (left <= 0ms) return false;
    pollfd watched{socket_, events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

/// Repeats an OpenSSL call until it succeeds, fails or takes too long.
template <typename Act>
ssize_t Connection::repeat_tls_call(Act&& act) {
  while (true) {
    ::ERR_clear_error();
    const int result = act();
    if (result > 0) return result;
    const int error = ::SSL_get_error(tls_.get(), result);
    if (error == SSL_ERROR_ZERO_RETURN) return 0;
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return -1;
    const Clock::time_point until = Clock::now() + longest_silence;
    if (!wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, until)) return -1;
    if (error == SSL_ERROR_WANT_READ && Clock::now() > deadline_) return -1;
  }
}

bool Connection::perform_handshake() {
  deadline_ = Clock::now() + longest_head;
  return !tls_ || repeat_tls_call([&] { return ::SSL_accept(tls_.get()); }) > 0;
}

bool Connection::wait_for_request() {
  if (!flush()) return false;
  if (begin_ < end_ || (tls_ && ::SSL_pending(tls_.get()) > 0)) return true;
  return wait(POLLIN, Clock::now() + longest_idle);
}

void Connection::begin_head() {
  deadline_ = Clock::now() + longest_head;
  head_bytes_ = max_head_bytes;
  is_request_read_ = false;
}

void Connection::begin_body(const httplib::Request& request) {
  deadline_ = Clock::now() + longest_body;
  head_bytes_ = std::numeric_limits<std::size_t>::max();
  is_chunked_ = request.has_header("Transfer-Encoding");
  is_in_chunks_ = false;
  left_ = 0;
  const std::size_t counts = request.get_header_value_count("Content-Length");
  if (is_chunked_) {
    is_body_valid_ =
        counts == 0 && ::strcasecmp(request.get_header_value("Transfer-Encoding").c_str(), "chunked") == 0;
  } else {
    const auto announced =
        counts == 0 ? 0 : parse_as<std::int64_t>(request.get_header_value("Content-Length"));
    is_body_valid_ = announced && *announced >= 0 && counts <= 1;
    left_ = std::max<std::int64_t>(announced.value_or(0), 0);
  }
  announced_ = left_;
  is_request_read_ = is_body_valid_ && !is_chunked_ && left_ == 0;
}

// For sockets other than UNIX sockets, the system sets the pid to 0.
::ucred Connection::peer_credentials() const noexcept {
  ::ucred process{};
  socklen_t size = sizeof process;
  ::getsockopt(socket_, SOL_SOCKET, SO_PEERCRED, &process, &size);
  return process;
}

ssize_t Connection::read_body(std::span<char> out) {
  if (is_request_read_) return 0;
  if (!is_body_valid_) return -1;
  if (is_chunked_ && left_ == 0 && !begin_chunk()) is_body_valid_ = false;
  const ssize_t bytes = is_body_valid_ && left_ > 0 ? read_body_bytes(out) : 0;
  if (bytes < 0 || !is_body_valid_) return -1;
  left_ -= bytes;
  if (!is_chunked_ && left_ == 0) is_request_read_ = true;
  return bytes;
}

ssize_t Connection::receive(char* bytes, std::size_t size) {
  if (!flush()) return -1;
  while (true) {
    if (Clock::now() > deadline_) return -1;
    if (tls_) {
      const int most = static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
      return repeat_tls_call([&] { return ::SSL_read(tls_.get(), bytes, most); });
    }
    const ssize_t received = ::recv(socket_, bytes, size, 0);
    if (received >= 0) return received;
    if (errno != EAGAIN && errno != EINTR) return -1;
    if (!wait(POLLIN, std::min(deadline_, Clock::now() + longest_silence))) return -1;
  }
}

bool Connection::fill_read_buffer() {
  if (begin_ < end_) return true;
  ahead_.resize(ahead_bytes);
  const ssize_t received = receive(ahead_.data(), ahead_.size());
  begin_ = 0;
  end_ = static_cast<std::size_t>(std::max<ssize_t>(received, 0));
  return received > 0;
}

ssize_t Connection::read(char* bytes, std::size_t size) {
  if (size > head_bytes_ || !fill_read_buffer()) return -1;
  const std::size_t taken = std::min(size, end_ - begin_);
  std::memcpy(bytes, ahead_.data() + begin_, taken);
  begin_ += taken;
  head_bytes_ -= taken;
  return static_cast<ssize_t>(taken);
}

/// Reads bytes of the body or, if the body is chunked, of its current chunk. Large reads go directly into the
/// caller's memory.
ssize_t Connection::read_body_bytes(std::span<char> out) {
  const std::size_t size = std::min(out.size(), static_cast<std::size_t>(left_));
  if (begin_ == end_ && size > ahead_bytes) {
    const ssize_t received = receive(out.data(), size);
    return received > 0 ? received : -1;
  }
  return read(out.data(), size);
}

/// Reads the next line, without its line break. Returns false if the line is too long, does not end with
/// CRLF, or does not arrive in time.
bool Connection::read_line(std::string& line) {
  line.clear();
  while (fill_read_buffer()) {
    const char next = ahead_[begin_++];
    if (next == '\n') {
      if (line.empty() || line.back() != '\r') return false;
      line.pop_back();
      return true;
    }
    if (line.size() >= max_line_bytes) return false;
    line += next;
  }
  return false;
}

// Reads the size of the next chunk (RFC 9112, section 7.1). Ignores chunk extensions and trailers.
bool Connection::begin_chunk() {
  std::string line;
  if (std::exchange(is_in_chunks_, true) && !(read_line(line) && line.empty())) return false;
  if (!read_line(line)) return false;
  std::string_view size = std::string_view(line).substr(0, line.find(';'));
  while (size.ends_with(' ') || size.ends_with('\t')) size.remove_suffix(1);
  const std::optional<std::int64_t> bytes = parse_hexadecimal_as<std::int64_t>(size);
  left_ = std::max<std::int64_t>(bytes.value_or(0), 0);
  return bytes && *bytes >= 0 && (left_ > 0 || skip_trailers());
}

bool Connection::skip_trailers() {
  std::string line;
  for (int trailers = 0; trailers <= max_trailers && read_line(line); ++trailers) {
    if (!line.empty()) continue;
    is_request_read_ = true;
    return true;
  }
  return false;
}

ssize_t Connection::send_some(const char* bytes, std::size_t size) {
  if (tls_) {
    const int most = static_cast<int>(std::min<std::size_t>(size, std::numeric_limits<int>::max()));
    return repeat_tls_call([&] { return ::SSL_write(tls_.get(), bytes, most); });
  }
  while (true) {
    const ssize_t sent = ::send(socket_, bytes, size, MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    if (errno != EAGAIN && errno != EINTR) return -1;
    if (!wait(POLLOUT, Clock::now() + longest_silence)) return -1;
  }
}

bool Connection::flush() {
  for (std::string_view left = unsent_; !left.empty();) {
    const ssize_t sent = send_some(left.data(), left.size());
    if (sent <= 0) return false;
    left.remove_prefix(static_cast<std::size_t>(sent));
  }
  unsent_.clear();
  return true;
}

// Buffers output, so that the headers and body of a short response go out in one packet.
ssize_t Connection::write(const char* bytes, std::size_t size) {
  if (unsent_.size() + size > max_unsent && !flush()) return -1;
  if (size > max_unsent) return send_some(bytes, size);
  unsent_.append(bytes, size);
  return static_cast<ssize_t>(size);
}

void Connection::linger() {
  if (!flush() || is_request_read_) return;
  ::shutdown(socket_, SHUT_WR);
  const Clock::time_point until = Clock::now() + longest_linger;
  std::array<char, 4096> unused;
  while (wait(POLLIN, until)) {
    const ssize_t received = ::recv(socket_, unused.data(), unused.size(), 0);
    if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

}  // namespace evenkeel
