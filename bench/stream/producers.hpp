#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace evenkeel::bench {

/// The body of a request with samples whose uids are changed in place, so that each request contains other
/// samples.
struct MadeUpBody {
  std::string bytes;
  std::string content_type;
  std::vector<std::size_t> uids;  ///< positions of the uids, which have `uid_digits` digits each
};
inline constexpr std::size_t uid_digits = 12;

/// Makes JSON Lines: this number of samples of about `bytes` each. If there are fields, `fields` lists of
/// real numbers (one per response token) share the bytes with the tokens.
[[nodiscard]] MadeUpBody lines_of(std::int64_t samples, std::int64_t bytes, int fields);

/// How many senders send how much.
struct Sending {
  std::string path = "/v1/samples";
  int port = 0;
  int producers = 8;
  std::int64_t requests = 0;  ///< of each producer
  std::int64_t first_uid = 0;
};

/// Sends from threads, each over its own connection, one request after another. Returns the seconds until all
/// were answered. Throws IoError unless each was answered with status 200.
[[nodiscard]] double send_from_all(const Sending& sending, const MadeUpBody& body);

/// HTTP server that reads request bodies with the same library as the buffer, discards them, and answers.
class ThrowingAway {
 public:
  explicit ThrowingAway(int producers);
  ~ThrowingAway();
  ThrowingAway(const ThrowingAway&) = delete;
  ThrowingAway& operator=(const ThrowingAway&) = delete;
  [[nodiscard]] int port() const noexcept { return port_; }

 private:
  struct Server;
  std::unique_ptr<Server> server_;
  int port_ = 0;
};

}  // namespace evenkeel::bench
