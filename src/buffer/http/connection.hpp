#pragma once

#include <httplib.h>
#include <openssl/types.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace evenkeel {

/// A client's connection, from accept() to close(). Every wait is bounded: the head and body of a request
/// have deadlines even if bytes keep arriving, and a client that neither sends nor receives anything is
/// disconnected earlier. Bytes that were read ahead are kept for the next request, so pipelined requests are
/// answered in order. This class reads request bodies itself, including chunked bodies with trailers, because
/// cpp-httplib 0.11 refuses trailers and reads only 4 KiB at a time.
class Connection final : public httplib::Stream {
 public:
  /// Takes ownership of `socket`. `tls` is null for a connection without TLS.
  Connection(socket_t socket, SSL_CTX* tls);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Performs the TLS handshake if the connection uses TLS. Returns false if it fails or takes too long.
  [[nodiscard]] bool perform_handshake();
  /// Sends pending output and waits for a request. Returns false if the client does not accept the output or
  /// no request begins within the idle limit.
  [[nodiscard]] bool wait_for_request();
  /// Sets the deadline for the head of a request.
  void begin_head();
  /// Sets the deadline for the body of `request`, and determines its length or encoding.
  void begin_body(const httplib::Request& request);
  /// Reads up to out.size() bytes of the body. Returns the number of bytes read; 0 at the end of the body; -1
  /// if the body is malformed, ends early, or takes too long.
  ssize_t read_body(std::span<char> out);
  /// Returns the size of the body as announced in the request's head; 0 if it was not announced.
  [[nodiscard]] std::int64_t announced_bytes() const noexcept { return announced_; }
  /// Returns the credentials of the process that opened the connection if it uses a UNIX socket; otherwise,
  /// the pid in them is 0.
  [[nodiscard]] ::ucred peer_credentials() const noexcept;
  /// Returns whether the current request was read to its end, so that the next bytes belong to the next
  /// request.
  [[nodiscard]] bool is_request_read() const noexcept { return is_request_read_; }
  /// Sends buffered output. Returns false if the client does not accept it.
  bool flush();
  /// Sends pending output and, if the request was not read to its end, discards further input for a short
  /// time before the connection is closed. Otherwise, a client that is still sending a body would see a
  /// connection reset instead of the answer.
  void linger();
  /// Makes all further reads and writes fail. Thread-safe.
  void interrupt() noexcept;

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* bytes, std::size_t size) override;
  using Stream::write;
  ssize_t write(const char* bytes, std::size_t size) override;
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  /// Hides the socket from cpp-httplib, which refuses descriptors above FD_SETSIZE because select() cannot
  /// watch them. This class uses poll() instead.
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  using Clock = std::chrono::steady_clock;

  template <typename Act>
  ssize_t repeat_tls_call(Act&& act);
  [[nodiscard]] bool wait(short events, Clock::time_point until) const;
  ssize_t receive(char* bytes, std::size_t size);
  ssize_t send_some(const char* bytes, std::size_t size);
  [[nodiscard]] bool fill_read_buffer();
  [[nodiscard]] bool read_line(std::string& line);
  ssize_t read_body_bytes(std::span<char> out);
  [[nodiscard]] bool begin_chunk();
  [[nodiscard]] bool skip_trailers();

  const socket_t socket_;
  const std::unique_ptr<SSL, void (*)(SSL*)> tls_;
  std::vector<char> ahead_;  // buffer for bytes read ahead; [begin_, end_) are unread
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string unsent_;
  Clock::time_point deadline_;  // time until which the current head or body must have been read
  std::size_t head_bytes_ = 0;  // maximum number of bytes of the head that may still be read
  bool is_request_read_ = true;
  bool is_body_valid_ = true;
  bool is_chunked_ = false;
  bool is_in_chunks_ = false;  // whether the body's first chunk has begun
  std::int64_t announced_ = 0;
  std::int64_t left_ = 0;  // remaining bytes of the body or of its current chunk
};

}  // namespace evenkeel
