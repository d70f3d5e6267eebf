#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "buffer/http/answers.hpp"

namespace evenkeel {

/// Forwards requests to another server, and its answers to the client.
class Forwarder {
 public:
  /// `trusted` is a file of certificates to trust in addition to the system's; may be empty.
  Forwarder(std::filesystem::path trusted, std::int64_t max_body_bytes);
  ~Forwarder();

  /// Returns whether another server has already forwarded the request, so that it must not be forwarded
  /// again.
  [[nodiscard]] static bool was_forwarded(const httplib::Request& request);
  /// Sends the request to the server at `url`, and copies its answer. Throws IoError if that server cannot be
  /// reached.
  void forward(const std::string& url, const httplib::Request& request, httplib::Response& response,
               BodyReader* reader);
  /// Aborts requests that other servers have not answered yet; the clients get an error. Thread-safe.
  void stop();

 private:
  [[nodiscard]] std::unique_ptr<httplib::Client> client_for(const std::string& url);
  httplib::Result send(httplib::Client& client, httplib::Request& request);
  void keep_client(const std::string& url, std::unique_ptr<httplib::Client> client);

  const std::filesystem::path trusted_;
  const std::int64_t max_body_bytes_;
  std::atomic<std::int64_t> bytes_in_flight_ = 0;
  std::mutex mutex_;
  std::string idle_url_;  // server to which the idle connections lead
  std::vector<std::unique_ptr<httplib::Client>> idle_;
  std::set<httplib::Client*> busy_;
  bool is_stopped_ = false;
};

}  // namespace evenkeel
