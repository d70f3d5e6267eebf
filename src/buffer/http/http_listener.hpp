#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace httplib {
struct Request;
struct Response;
}  // namespace httplib

namespace evenkeel {

class Connection;

/// Function that answers a request, after the token was checked. The connection, from which it may read the
/// request's body, is null for GET and HEAD. If the function does not read the body to the end, the
/// connection is closed after the answer.
using HttpHandler = std::function<void(const httplib::Request&, httplib::Response&, Connection*)>;

struct ServerSettings {
  std::string address = "127.0.0.1";
  int port = 8710;                      ///< TCP port; 0 for any free port
  std::string token{};                  ///< token that clients must send; empty if they do not need a token
  std::filesystem::path certificate{};  ///< PEM file of the server's certificate; empty for no TLS
  std::filesystem::path key{};          ///< PEM file of the certificate's private key
  /// Path of a UNIX socket on which the server also listens, without TLS, for processes of the same user.
  /// Empty for no UNIX socket.
  std::filesystem::path socket{};
};

/// HTTP/1.1 server that checks tokens. It passes requests with the token to `answer`, and answers all other
/// requests with status 401 before reading their bodies. Each connection has its own thread, and is closed if
/// a request exceeds a deadline or the client is silent for too long (connection.hpp).
class HttpListener {
 public:
  /// Starts listening. Throws ConfigError for a non-loopback address without a token, and for a certificate
  /// without a key or vice versa; throws IoError if the server cannot listen on the address or cannot use the
  /// certificate.
  HttpListener(const ServerSettings& settings, HttpHandler answer);
  ~HttpListener();

  [[nodiscard]] int port() const noexcept { return port_; }
  /// Example: "http://127.0.0.1:8710".
  [[nodiscard]] std::string url() const;
  /// Answers requests until stop() is called from any thread; returns at once if it was called before. After
  /// stop(), requests being answered get a few seconds to finish; all other connections are closed at once.
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
