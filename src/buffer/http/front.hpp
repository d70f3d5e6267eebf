#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "buffer/door.hpp"
#include "buffer/http/answers.hpp"

namespace evenkeel {

/// Listens, and has `answer` answer every request that has the token. Others are answered with 401 before
/// their bodies are read. Each connection has a thread; deadlines for heads, bodies and silence close
/// connections (connection.hpp).
class Front {
 public:
  /// Throws as Door does.
  Front(const DoorSettings& settings, HttpAnswer answer);
  ~Front();

  [[nodiscard]] int port() const noexcept { return port_; }
  /// "http://127.0.0.1:8710"
  [[nodiscard]] std::string url() const;
  /// Until it is stopped, which may have happened before. Requests that are being answered then have a few
  /// seconds; all other connections are closed at once.
  void serve();
  void stop();

 private:
  class Server;
  void bind();
  void answer_to(const httplib::Request& request, httplib::Response& response) const;

  const DoorSettings settings_;
  const HttpAnswer answer_;
  std::unique_ptr<Server> server_;
  int port_ = -1;
  std::mutex mutex_;  // is_serving_, and changes of is_stopped_
  bool is_serving_ = false;
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace evenkeel
