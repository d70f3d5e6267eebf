#pragma once

#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "buffer/buffer.hpp"
#include "buffer/intake/spooled_body.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

inline constexpr const char* json_type = "application/json";

/// A request's body, which can be read once.
class BodyReader {
 public:
  BodyReader() = default;
  BodyReader(const BodyReader&) = delete;
  BodyReader& operator=(const BodyReader&) = delete;
  virtual ~BodyReader() = default;
  /// Reads up to as many bytes as `out` has. Returns their number; 0 at the end, and -1 if the body is
  /// malformed, ends early or takes too long.
  virtual ssize_t read_body(std::span<char> out) = 0;
};

/// What answers a request that has the token. The body is null where the method has none. A connection ends
/// with the answer to a request whose body was not read to its end.
using HttpAnswer = std::function<void(const httplib::Request&, httplib::Response&, BodyReader*)>;

/// Bytes of bodies that are in memory at this time. Throws FullError when they are too many.
class InFlight {
 public:
  explicit InFlight(std::atomic<std::int64_t>& all) : all_(all) {}
  ~InFlight() { all_ -= mine_; }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

  void add(std::int64_t bytes);

 private:
  std::atomic<std::int64_t>& all_;
  std::int64_t mine_ = 0;
};

void answer(httplib::Response& response, const nlohmann::ordered_json& content);
void answer(httplib::Response& response, int status, const ErrorReport& report);
/// With the status that its kind has.
void answer(httplib::Response& response, const Error& error);

/// Whether the request has the token, if there is one; the answer if it has not.
[[nodiscard]] bool may_come_in(const httplib::Request& request, httplib::Response& response,
                               const std::string& token);

/// Reads a request's body to its end. Null, with the answer, if there is more than `most`, if too much is in
/// memory, or if it does not come. Throws IoError if there is no memory.
[[nodiscard]] std::optional<SpooledBody> receive(const httplib::Request& request, httplib::Response& response,
                                                 BodyReader& reader, std::int64_t most, InFlight& in_flight);

/// A buffer's calls (docs/streams.md has them). The buffer stays as long as an
/// answer is being sent.
[[nodiscard]] HttpAnswer answers_of(std::shared_ptr<Buffer> buffer);

}  // namespace evenkeel
