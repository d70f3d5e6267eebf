#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "buffer/http/answers.hpp"
#include "buffer/server.hpp"

namespace evenkeel {

/// HTTP server that checks tokens. It passes requests with the token to `answer`, and answers all other
/// requests with status 401 before reading their bodies. Each connection has its own thread, and is closed if
/// a request exceeds a deadline or the client is silent for too long (connection.hpp).
class HttpListener {
 public:
  /// Starts listening. Throws ConfigError if the settings are inconsistent (ListeningServer), and IoError if
  /// the server cannot listen or cannot use the certificate.
  HttpListener(const ServerSettings& settings, HttpHandler answer);
  ~HttpListener();

  [[nodiscard]] int port() const noexcept { return port_; }
  /// Example: "http://127.0.0.1:8710".
  [[nodiscard]] std::string url() const;
  /// Answers requests until stop() is called; returns at once if it was called before. After stop(), requests
  /// being answered get a few seconds to finish; all other connections are closed at once.
  void serve();
  void stop();

 private:
  class Server;
  [[nodiscard]] std::unique_ptr<Server> make_server(const ServerSettings& settings);
  void bind_and_listen();
  void handle_request(const httplib::Request& request, httplib::Response& response) const;

  const ServerSettings settings_;
  const HttpHandler answer_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Server> local_;  // server that listens on the UNIX socket; null if no socket is configured
  int port_ = -1;
  std::mutex mutex_;  // guards is_serving_ and writes to is_stopped_
  bool is_serving_ = false;
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace evenkeel
