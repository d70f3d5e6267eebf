#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "buffer/http/answers.hpp"

namespace evenkeel {

/// Forwards requests to another server and returns that server's answers to the clients.
class Forwarder {
 public:
  /// `trusted` is a file of certificates to trust in addition to the system's; it may be empty. Requests with
  /// bodies of more than `max_body_bytes` are rejected.
  Forwarder(std::filesystem::path trusted, std::int64_t max_body_bytes);

  /// Returns whether another server has already forwarded this request. It must not be forwarded a second
  /// time.
  [[nodiscard]] static bool was_forwarded(const httplib::Request& request);
  /// Sends the request to the server at `url` and copies that server's answer to `response`. The request's
  /// body is read from `connection`; null if there is no body. Throws IoError if the server cannot be reached
  /// or stop() was called.
  void forward(const std::string& url, const httplib::Request& request, httplib::Response& response,
               Connection* connection);
  /// Aborts requests that other servers have not answered yet; their clients receive an error. Thread-safe.
  void stop();

 private:
  [[nodiscard]] std::unique_ptr<httplib::Client> acquire_client(const std::string& url);
  httplib::Result send(httplib::Client& client, httplib::Request& request);
  void release_client(const std::string& url, std::unique_ptr<httplib::Client> client);

  const std::filesystem::path trusted_;
  const std::int64_t max_body_bytes_;
  std::atomic<std::int64_t> bytes_in_flight_ = 0;
  std::mutex mutex_;
  std::string idle_url_;  // URL of the server to which `idle_` is connected
  std::vector<std::unique_ptr<httplib::Client>> idle_;
  std::set<httplib::Client*> busy_;
  bool is_stopped_ = false;
};

}  // namespace evenkeel
