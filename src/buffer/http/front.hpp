#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "buffer/door.hpp"
#include "buffer/http/answers.hpp"

namespace evenkeel {

/// Listens, and has `answer` answer every GET and POST. Each connection has a thread; one that is silent in
/// the middle of a request, or has sent nothing for a while, is closed.
class Front {
 public:
  /// Throws as Door does.
  Front(const DoorSettings& settings, std::int64_t most_body_bytes, HttpAnswer answer);

  [[nodiscard]] int port() const noexcept { return port_; }
  /// "http://127.0.0.1:8710"
  [[nodiscard]] std::string url() const;
  /// Until it is stopped, which may have happened before. What is being answered then is, and ends its
  /// connection.
  void serve();
  void stop();

 private:
  template <typename Server, typename... Arguments>
  void use(std::int64_t most_body_bytes, const HttpAnswer& answer, Arguments... arguments);

  DoorSettings settings_;
  std::unique_ptr<httplib::Server> server_;
  int port_ = -1;
  std::mutex mutex_;  // is_serving_, and changes of is_stopped_
  bool is_serving_ = false;
  std::atomic<bool> is_stopped_ = false;
};

}  // namespace evenkeel
