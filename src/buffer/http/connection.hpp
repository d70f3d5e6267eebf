#pragma once

#include <httplib.h>
#include <openssl/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "buffer/http/answers.hpp"

namespace evenkeel {

/// A client's connection, from accept() to close(). Every wait for the client ends: a request head and a
/// request body have deadlines however the client spreads their bytes, and a client that neither sends nor
/// takes a byte is given up earlier. Bytes that were read ahead stay for the next request, so pipelined
/// requests are answered in their order. Reads request bodies itself, including chunked ones with trailers:
/// cpp-httplib 0.11 refuses trailers and reads 4 KiB at a time.
class Connection final : public httplib::Stream, public BodyReader {
 public:
  /// Owns `socket`. `tls` is null for a connection without TLS.
  Connection(socket_t socket, SSL_CTX* tls);
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Returns false if the TLS handshake fails or takes too long.
  [[nodiscard]] bool connect();
  /// Returns whether a request begins before the client has been idle for too long.
  [[nodiscard]] bool wait_for_request();
  /// Starts the deadline of a request head.
  void begin_head();
  /// Starts the deadline of the request's body.
  void begin_body(const httplib::Request& request);
  ssize_t read_body(std::span<char> out) override;
  /// Whether the next bytes belong to the next request.
  [[nodiscard]] bool is_request_read() const noexcept { return is_request_read_; }
  /// Sends what was written. Returns false if the client has not taken it.
  bool flush();
  /// Discards what the client still sends, for a short time: a client that is sending a body would otherwise
  /// see a reset connection instead of the answer.
  void linger();
  /// Makes all reads and writes fail, from any thread.
  void interrupt() noexcept;

  bool is_readable() const override { return true; }
  bool is_writable() const override { return true; }
  ssize_t read(char* bytes, std::size_t size) override;
  using Stream::write;
  ssize_t write(const char* bytes, std::size_t size) override;
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  /// cpp-httplib refuses numbers above FD_SETSIZE, which select() cannot watch; this class uses poll().
  socket_t socket() const override { return INVALID_SOCKET; }

 private:
  using Clock = std::chrono::steady_clock;
  struct FreeTls {
    void operator()(SSL* tls) const noexcept;
  };

  template <typename Act>
  ssize_t until_done(Act&& act);
  [[nodiscard]] bool wait(short events, Clock::time_point until) const;
  ssize_t receive(char* bytes, std::size_t size);
  ssize_t send_some(const char* bytes, std::size_t size);
  [[nodiscard]] bool fill();
  [[nodiscard]] bool read_line(std::string& line);
  ssize_t read_counted(std::span<char> out);
  [[nodiscard]] bool begin_chunk();
  [[nodiscard]] bool skip_trailers();

  const socket_t socket_;
  const std::unique_ptr<SSL, FreeTls> tls_;
  std::vector<char> ahead_;  // read and not used yet: [begin_, end_)
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string unsent_;
  Clock::time_point deadline_;  // of the head or the body that is being read
  std::size_t head_bytes_ = 0;  // that the head may still have
  bool is_request_read_ = true;
  bool is_body_valid_ = true;
  bool is_chunked_ = false;
  bool is_in_chunks_ = false;  // a chunk has begun
  std::int64_t left_ = 0;      // bytes of the body, or of its chunk
};

}  // namespace evenkeel
