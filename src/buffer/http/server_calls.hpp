#pragma once

#include <httplib.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "buffer/http/answers.hpp"
#include "buffer/intake/request_body.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Base of classes that implement a server's API calls. Turns errors into answers, and limits the size of
/// request bodies.
class ServerCalls {
 public:
  /// An unknown call is answered with status 404, the message `unknown` and the hint `hint`.
  ServerCalls(const char* unknown, const char* hint) : unknown_(unknown), hint_(hint) {}
  ServerCalls(const ServerCalls&) = delete;
  ServerCalls& operator=(const ServerCalls&) = delete;

  /// Runs the API call for the request: a call added by add_get() if `connection` is null, or a call added by
  /// add_post() or register_call() if the method is POST.
  void answer_request(const httplib::Request& request, httplib::Response& response,
                      Connection* connection) const {
    const Get* const get = connection == nullptr ? find(gets_, request) : nullptr;
    const Post* const post =
        connection != nullptr && request.method == "POST" ? find(posts_, request) : nullptr;
    if (get == nullptr && post == nullptr) {
      return answer(response, 404,
                    {ErrorKind::input, request.method + " " + request.path, unknown_, hint_, -1});
    }
    try {
      if (get != nullptr)
        (*get)(request, response);
      else
        (*post)(request, response, *connection);
    } catch (const Error& error) {
      answer(response, error);
    } catch (const std::bad_alloc&) {
      answer(response, 503, {ErrorKind::io, "server", "is out of memory", "Send the same request again", -1});
    }
  }

 protected:
  using Request = httplib::Request;
  using Response = httplib::Response;
  using Get = std::function<void(const Request&, Response&)>;
  using Post = std::function<void(const Request&, Response&, Connection&)>;
  using Call = std::function<void(const Request&, Response&, const std::string& body)>;

  ~ServerCalls() = default;

  /// Add calls. As in httplib, `path` is a regular expression that must match a request's whole path.
  void add_get(const char* path, Get call) { gets_.emplace_back(path, std::move(call)); }
  void add_post(const char* path, Post call) { posts_.emplace_back(path, std::move(call)); }
  /// Adds a POST call. Requests with more than `most` bytes in the body are refused.
  void register_call(const char* path, Call call, std::int64_t most = std::int64_t{16} << 20) {
    add_post(path, [this, most, call = std::move(call)](const Request& request, Response& response,
                                                        Connection& connection) {
      InFlightBytes in_flight(bytes_in_flight_);
      RequestBody body;
      if (receive_body(response, connection, most, in_flight, body))
        call(request, response, std::string(body.bytes()));
    });
  }

  static nlohmann::json parse_object(const std::string& body) {
    nlohmann::json parsed = nlohmann::json::parse(body.empty() ? "{}" : body, nullptr, false);
    if (!parsed.is_object()) throw InputError("body", "is not a JSON object", "Send a JSON object");
    return parsed;
  }

  std::atomic<std::int64_t> bytes_in_flight_ = 0;

 private:
  template <typename Function>
  static const Function* find(const std::vector<std::pair<std::regex, Function>>& calls,
                              const Request& request) {
    auto& matches = const_cast<Request&>(request).matches;
    for (const auto& [pattern, call] : calls) {
      if (std::regex_match(request.path, matches, pattern)) return &call;
    }
    return nullptr;
  }

  const char* const unknown_;
  const char* const hint_;
  std::vector<std::pair<std::regex, Get>> gets_;
  std::vector<std::pair<std::regex, Post>> posts_;
};

}  // namespace evenkeel
