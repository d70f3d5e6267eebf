#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace evenkeel::bench {

/// A request's body with one sample, whose uid is changed in place, so that every one is another sample.
struct MadeUpBody {
  std::string bytes;
  std::string content_type;
  std::vector<std::size_t> uids;  ///< where uids are: `uid_digits` digits each
};
inline constexpr std::size_t uid_digits = 12;

/// JSON Lines: so many samples of about `bytes` each. `fields` lists of real numbers, one a response token,
/// share the bytes with the tokens; without fields all are tokens.
[[nodiscard]] MadeUpBody lines_of(std::int64_t samples, std::int64_t bytes, int fields);

/// How many senders send how much.
struct Sending {
  std::string path = "/v1/samples";
  int port = 0;
  int producers = 8;
  std::int64_t requests = 0;  ///< of each producer
  std::int64_t first_uid = 0;
};

/// Sends from threads, each over a connection of its own, one request after the other. Returns the seconds
/// until all were answered, and throws IoError unless each was answered with 200.
[[nodiscard]] double send_from_all(const Sending& sending, const MadeUpBody& body);

/// A server that reads bodies with the library of the door, throws them away and answers.
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
