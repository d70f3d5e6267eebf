#include "buffer/http/front.hpp"

#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "base/text/host_port.hpp"
#include "buffer/http/connections.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr int backlog = 1024;
constexpr int silent_seconds = 10;  // in the middle of a request
constexpr int idle_seconds = 5;     // between two of them

/// httplib's servers, with a longer queue of connections.
template <typename Server>
class Listening : public Server {
 public:
  using Server::Server;
  void listen_to(int connections) { ::listen(this->svr_sock_, connections); }
};

}  // namespace

Front::Front(const DoorSettings& settings, std::int64_t most_body_bytes, HttpAnswer answer)
    : settings_(settings) {
  if (settings.token.empty() && !is_loopback(settings.address)) {
    throw ConfigError("listen", "is " + settings.address + ", which others can reach",
                      "Name a file with a token, or listen on 127.0.0.1");
  }
  if (settings.certificate.empty() != settings.key.empty())
    throw ConfigError("cert", "and key go together", "Give both, or none");
  if (settings.certificate.empty()) {
    use<httplib::Server>(most_body_bytes, answer);
  } else {
    use<httplib::SSLServer>(most_body_bytes, answer, settings.certificate.c_str(), settings.key.c_str());
  }
}

std::string Front::url() const {
  const std::string scheme = settings_.certificate.empty() ? "http://" : "https://";
  const bool is_v6 = settings_.address.find(':') != std::string::npos;
  return scheme + (is_v6 ? "[" + settings_.address + "]" : settings_.address) + ":" + std::to_string(port_);
}

template <typename Server, typename... Arguments>
void Front::use(std::int64_t most_body_bytes, const HttpAnswer& answer, Arguments... arguments) {
  auto server = std::make_unique<Listening<Server>>(arguments...);
  if (!server->is_valid()) {
    throw IoError(settings_.certificate.string(),
                  "cannot be used as a certificate with the key " + settings_.key.string(),
                  "Both must be PEM files, and belong together");
  }
  server->new_task_queue = [] { return new Connections; };
  server->set_tcp_nodelay(true);
  server->set_keep_alive_max_count(std::numeric_limits<std::size_t>::max());
  server->set_keep_alive_timeout(idle_seconds);
  server->set_read_timeout(silent_seconds);
  server->set_write_timeout(silent_seconds);
  server->set_payload_max_length(static_cast<std::size_t>(most_body_bytes));
  // httplib's own would share the port with another buffer.
  server->set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  const auto reply = [this, answer](const httplib::Request& request, httplib::Response& response,
                                    const httplib::ContentReader* reader) {
    answer(request, response, reader);
    // With cpp-httplib 0.18 (Debian 13), a connection on which requests follow each other without a pause
    // outlives stop().
    if (is_stopped_) response.set_header("Connection", "close");
  };
  server->Get(".*", [reply](const httplib::Request& request, httplib::Response& response) {
    reply(request, response, nullptr);
  });
  server->Post(".*", [reply](const httplib::Request& request, httplib::Response& response,
                             const httplib::ContentReader& reader) { reply(request, response, &reader); });
  port_ = settings_.port;
  if (port_ == 0) {
    port_ = server->bind_to_any_port(settings_.address);
  } else if (!server->bind_to_port(settings_.address, port_)) {
    port_ = -1;
  }
  if (port_ < 0) {
    throw IoError(settings_.address + ":" + std::to_string(settings_.port), "cannot be listened on",
                  "Is another program there? Try another port");
  }
  server->listen_to(backlog);
  server_ = std::move(server);
}

void Front::serve() {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    is_serving_ = true;
  }
  server_->listen_after_bind();
  const std::lock_guard lock(mutex_);
  is_serving_ = false;
}

// httplib stops only a server that runs already.
void Front::stop() {
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
