#pragma once

#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "buffer/http/http_listener.hpp"
#include "buffer/intake/body_sink.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

class Buffer;
class ValueStore;

inline constexpr const char* json_type = "application/json";

/// Default limit on the total number of bytes of request bodies that are in memory at the same time.
inline constexpr std::int64_t default_max_in_flight = std::int64_t{192} << 20;

/// Counts the bytes of a request's body or answer in `all`, the total over all bodies and answers in memory,
/// until this object is destroyed. add() throws FullError if the total exceeds `most`.
class InFlightBytes {
 public:
  explicit InFlightBytes(std::atomic<std::int64_t>& all, std::int64_t most = default_max_in_flight)
      : all_(all), most_(most) {}
  ~InFlightBytes() { all_ -= mine_; }
  InFlightBytes(const InFlightBytes&) = delete;
  InFlightBytes& operator=(const InFlightBytes&) = delete;

  void add(std::int64_t bytes);

 private:
  std::atomic<std::int64_t>& all_;
  const std::int64_t most_;
  std::int64_t mine_ = 0;
};

/// Writes JSON content without changing the status.
void answer(httplib::Response& response, const nlohmann::ordered_json& content);
void answer(httplib::Response& response, int status, const ErrorReport& report);
/// Writes an error with the HTTP status for its exception type.
void answer(httplib::Response& response, const Error& error);

/// Returns whether the request has the required token; true if `token` is empty. If not, answers with status
/// 401.
[[nodiscard]] bool authorize(const httplib::Request& request, httplib::Response& response,
                             const std::string& token);

/// Reads a request's body from its connection to its end into `body`. If the body has more than `most` bytes,
/// is malformed, or does not arrive in time, or if adding it to `in_flight` throws FullError, answers with an
/// error and returns false. Exceptions from `body` propagate, except FullError, which is also answered.
[[nodiscard]] bool receive_body(httplib::Response& response, Connection& connection, std::int64_t most,
                                InFlightBytes& in_flight, BodySink& body);

/// Returns a function that answers the API calls of a buffer, which docs/streams.md lists. The function keeps
/// the buffer alive until the last answer has been sent.
[[nodiscard]] HttpHandler make_answer_function(std::shared_ptr<Buffer> buffer);

/// Returns a function that answers the API calls of a store of values, which docs/formats.md lists. Clients
/// may save and load files only in the folder `checkpoints`, and not at all if it is empty.
[[nodiscard]] HttpHandler make_answer_function(std::shared_ptr<ValueStore> store,
                                               const std::filesystem::path& checkpoints);

}  // namespace evenkeel
