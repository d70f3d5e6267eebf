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

/// Passes requests on to another door, and its answers back.
class Forwarder {
 public:
  /// `trusted`: certificates to trust beside the system's; may be empty.
  Forwarder(std::filesystem::path trusted, std::int64_t most_body_bytes);
  ~Forwarder();

  /// Whether another door has passed it on already. It goes no further then.
  [[nodiscard]] static bool has_passed(const httplib::Request& request);
  void pass_on(const std::string& url, const httplib::Request& request, httplib::Response& response,
               BodyReader* reader);
  /// Gives up what other doors have not answered yet, from any thread: it is answered with an error.
  void stop();

 private:
  [[nodiscard]] std::unique_ptr<httplib::Client> client_for(const std::string& url);
  httplib::Result send(httplib::Client& client, httplib::Request& request);
  void keep(const std::string& url, std::unique_ptr<httplib::Client> client);

  const std::filesystem::path trusted_;
  const std::int64_t most_body_bytes_;
  std::atomic<std::int64_t> bytes_in_flight_ = 0;
  std::mutex mutex_;
  std::string idle_url_;  // of these connections, which wait for the next request
  std::vector<std::unique_ptr<httplib::Client>> idle_;
  std::set<httplib::Client*> busy_;
  bool is_stopped_ = false;
};

}  // namespace evenkeel
