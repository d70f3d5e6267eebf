#include "buffer/http/http_listener.hpp"

#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/text/host_port.hpp"
#include "buffer/http/answers.hpp"
#include "buffer/http/connection.hpp"
#include "buffer/http/connections.hpp"
#include "evenkeel/base/error.hpp"
#include "io/files/system_error.hpp"

namespace evenkeel {

struct FreeTlsContext {
  void operator()(SSL_CTX* tls) const noexcept { ::SSL_CTX_free(tls); }
};
using TlsContext = std::unique_ptr<SSL_CTX, FreeTlsContext>;

namespace {

constexpr int backlog = 1024;
constexpr std::size_t max_requests_per_connection = 1000;

/// Returns a TLS context for the certificate in `settings`; null if `settings` has no certificate. Throws
/// IoError if the certificate and its key cannot be used.
TlsContext make_tls_context(const ServerSettings& settings) {
  if (settings.certificate.empty()) return nullptr;
  TlsContext tls(::SSL_CTX_new(::TLS_server_method()));
  if (tls == nullptr || ::SSL_CTX_set_min_proto_version(tls.get(), TLS1_2_VERSION) != 1 ||
      ::SSL_CTX_use_certificate_chain_file(tls.get(), settings.certificate.c_str()) != 1 ||
      ::SSL_CTX_use_PrivateKey_file(tls.get(), settings.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ::SSL_CTX_check_private_key(tls.get()) != 1) {
    throw IoError(settings.certificate.string(),
                  "cannot be used as a certificate with the key " + settings.key.string(),
                  "Name PEM files that this user can read, with the key that belongs to the certificate");
  }
  ::SSL_CTX_set_options(tls.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  ::SSL_CTX_set_mode(tls.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return tls;
}

/// The connection that a thread serves. Handlers find it in the thread-local variable `served`, because
/// cpp-httplib does not pass connections to handlers.
struct ServedConnection {
  Connection& connection;
  OpenConnections::Registration& listed;
};
thread_local ServedConnection* served = nullptr;

}  // namespace

/// HTTP server that uses httplib to read request heads and write answers, but handles connections and their
/// deadlines itself.
class HttpListener::Server : public httplib::Server {
 public:
  explicit Server(TlsContext tls) : tls_(std::move(tls)) {
    new_task_queue = [this] { return new ConnectionThreads(open_); };
  }
  ~Server() override {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  void listen_with_backlog(int connections) { ::listen(svr_sock_, connections); }

  /// Binds to a UNIX socket that only this user may use. Replaces a stale socket, on which no process
  /// listens. Throws IoError if the path is too long, is the socket of another server, or cannot be bound.
  void bind_to_path(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
      throw IoError(path,
                    "is too long for a socket: " + std::to_string(path.size()) + " bytes; the maximum is " +
                        std::to_string(sizeof address.sun_path - 1),
                    "Use a shorter path");
    }
    std::ranges::copy(path, address.sun_path);
    const auto* const generic = reinterpret_cast<const sockaddr*>(&address);
    svr_sock_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(svr_sock_, generic, sizeof address) == 0) {
      ::close(svr_sock_.exchange(INVALID_SOCKET));
      throw IoError(path, "is the socket of another server", "Stop it first, or use another path");
    }
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) ::unlink(path.c_str());
    if (::bind(svr_sock_, generic, sizeof address) != 0 || ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0) {
      const int error = errno;
      ::close(svr_sock_.exchange(INVALID_SOCKET));
      throw system_error(path, "cannot be opened for listening", error);
    }
    path_ = path;
  }

 private:
  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, tls_.get());
    OpenConnections::Registration listed(open_, connection);
    ServedConnection serving{connection, listed};
    served = &serving;
    bool goes_on = connection.perform_handshake();
    for (std::size_t left = keep_alive_max_count_; goes_on && connection.wait_for_request(); --left) {
      connection.begin_head();
      goes_on = answer_next_request(*this, connection, left == 1) && connection.flush() &&
                connection.is_request_read();
      listed.end_answer();
    }
    connection.linger();
    served = nullptr;
    return true;
  }

  /// Answers the next request. If `is_last`, the answer announces that the connection will be closed. Returns
  /// whether the connection may be used for another request. cpp-httplib 0.17 added parameters for addresses,
  /// which are not used here.
  template <typename Self>
  static bool answer_next_request(Self& self, Connection& connection, bool is_last) {
    const auto is_answered = [&] {
      if constexpr (requires { self.process_request(connection, is_last, is_last, nullptr); }) {
        return self.process_request(connection, is_last, is_last, nullptr);
      } else {
        return self.process_request(connection, "", 0, "", 0, is_last, is_last, nullptr);
      }
    }();
    return is_answered && !is_last;
  }

  const TlsContext tls_;
  OpenConnections open_;
  std::string path_;  // path of the UNIX socket; empty for TCP
};

HttpListener::HttpListener(const ServerSettings& settings, HttpHandler answer)
    : settings_(settings), answer_(std::move(answer)) {
  if (settings.token.empty() && !is_loopback(settings.address)) {
    throw ConfigError("listening address",
                      "is " + settings.address + ", which other machines can reach, but no token is set",
                      "Name a file with a token (--token-file, or stream.token_file), or listen on 127.0.0.1 "
                      "(--listen, or stream.listen)");
  }
  if (settings.certificate.empty() != settings.key.empty())
    throw ConfigError("--cert", "must be given together with --key", "Give both, or neither of them");
  server_ = make_server(settings);
  bind_and_listen();
  if (settings.socket.empty()) return;
  ServerSettings without_tls = settings;
  without_tls.certificate.clear();
  local_ = make_server(without_tls);
  local_->bind_to_path(settings.socket.string());
  local_->listen_with_backlog(backlog);
}

std::unique_ptr<HttpListener::Server> HttpListener::make_server(const ServerSettings& settings) {
  auto server = std::make_unique<Server>(make_tls_context(settings));
  server->set_tcp_nodelay(true);
  server->set_keep_alive_max_count(max_requests_per_connection);
  // httplib's default option, SO_REUSEPORT, would let another server share the port.
  server->set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server->set_expect_100_continue_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        return authorize(request, response, settings_.token) ? 100 : response.status;
      });
  server->set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    handle_request(request, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  return server;
}

HttpListener::~HttpListener() = default;

std::string HttpListener::url() const {
  const std::string scheme = settings_.certificate.empty() ? "http://" : "https://";
  const bool is_v6 = settings_.address.find(':') != std::string::npos;
  return scheme + (is_v6 ? "[" + settings_.address + "]" : settings_.address) + ":" + std::to_string(port_);
}

void HttpListener::bind_and_listen() {
  port_ = settings_.port;
  if (port_ == 0) {
    port_ = server_->bind_to_any_port(settings_.address);
  } else if (!server_->bind_to_port(settings_.address, port_)) {
    port_ = -1;
  }
  if (port_ < 0) {
    throw IoError(
        settings_.address + ":" + std::to_string(settings_.port), "cannot be opened for listening",
        "Use an address of this machine, and a port that no other program uses; ports below 1024 need "
        "special privileges");
  }
  server_->listen_with_backlog(backlog);
}

/// Answers one request. The connection is closed afterwards if the request's body was not read to its end, or
/// if stop() was called.
void HttpListener::handle_request(const httplib::Request& request, httplib::Response& response) const {
  Connection& connection = served->connection;
  const bool has_token = authorize(request, response, settings_.token);
  served->listed.begin_answer(has_token);
  connection.begin_body(request);
  if (has_token) {
    const bool has_body = request.method != "GET" && request.method != "HEAD";
    answer_(request, response, has_body ? &connection : nullptr);
  }
  if (is_stopped_ || !connection.is_request_read()) response.set_header("Connection", "close");
}

void HttpListener::serve() {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    is_serving_ = true;
  }
  if (local_ == nullptr) {
    server_->listen_after_bind();
  } else {
    std::thread serving_local([this] { local_->listen_after_bind(); });
    while (!local_->is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_->listen_after_bind();
    local_->stop();
    serving_local.join();
  }
  const std::lock_guard lock(mutex_);
  is_serving_ = false;
}

// Waits until httplib's server is running, because its stop() has no effect until then.
void HttpListener::stop() {
  std::unique_lock lock(mutex_);
  is_stopped_ = true;
  while (is_serving_ && !server_->is_running()) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  server_->stop();
}

}  // namespace evenkeel
