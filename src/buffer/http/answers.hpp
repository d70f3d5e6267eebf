#pragma once

#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

inline constexpr const char* json_type = "application/json";

/// What answers a request. The reader of its body is missing where the method has none; a body that is there
/// must be read to its end.
using HttpAnswer =
    std::function<void(const httplib::Request&, httplib::Response&, const httplib::ContentReader*)>;

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

/// httplib would unpack and take apart some bodies itself, without noticing that one is cut off. Returns how
/// the body is encoded.
std::string take_as_it_is(const httplib::Request& request);

/// Reads a request's body to its end, also of one that is refused: what follows it is the next request.
/// Returns false, with the answer, if there is more than `most` or it does not come.
[[nodiscard]] bool receive(const httplib::Request& request, httplib::Response& response,
                           const httplib::ContentReader& reader, std::int64_t most,
                           const std::function<void(std::span<const char>)>& take);

}  // namespace evenkeel
