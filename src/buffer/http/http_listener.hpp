#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "buffer/http/answers.hpp"
#include "buffer/server.hpp"

namespace evenkeel {

/// HTTP server that checks tokens: passes requests that have the token to `answer`, and answers all others
/// with status 401 before reading their bodies. There is one thread per connection; a connection is closed if
/// it exceeds a deadline for the head or the body, or is silent for too long (connection.hpp).
class HttpListener {
 public:
  /// Throws the errors of BufferServer.
  HttpListener(const ServerSettings& settings, HttpAnswer answer);
  ~HttpListener();

  [[nodiscard]] int port() const noexcept { return port_; }
  /// Example: "http://127.0.0.1:8710".
  [[nodiscard]] std::string url() const;
  /// Serves until stop() is called, even if that happened before this call. After stop(), requests being
  /// answered get a few seconds; all other connections are closed at once.
  void serve();
  void stop();

 private:
  class Server;
  [[nodiscard]] std::unique_ptr<Server> make_server(const ServerSettings& settings);
  void bind();
  void handle_request(const httplib::Request& request, httplib::Response& response) const;

  const ServerSettings settings_;
  const HttpAnswer answer_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Server> local_;  // of the UNIX socket, or null
  int port_ = -1;
  std::mutex mutex_;  // guards is_serving_ and writes to is_stopped_
  bool is_serving_ = false;
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace evenkeel
