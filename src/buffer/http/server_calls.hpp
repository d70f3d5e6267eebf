#pragma once

#include <httplib.h>
#include <atomic>
#include <cstdint>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "buffer/http/answers.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

/// Table of API calls by method and path. As in httplib, each path is a regular expression that must match a
/// request's whole path.
class CallTable {
 public:
  using Get = std::function<void(const httplib::Request&, httplib::Response&)>;
  using Post = std::function<void(const httplib::Request&, httplib::Response&, BodyReader&)>;

  void add_get_call(const char* path, Get call) { gets_.emplace_back(path, std::move(call)); }
  void add_post_call(const char* path, Post call) { posts_.emplace_back(path, std::move(call)); }

  /// Runs the API call for the request: a call added by add_get_call() if `body` is null, or a call added by
  /// add_post_call() if the method is POST. If the table has no call for the request, returns false without
  /// reading the body or writing an answer.
  bool answer(const httplib::Request& request, httplib::Response& response, BodyReader* body) const {
    if (body == nullptr) {
      const Get* const call = find(gets_, request);
      if (call != nullptr) (*call)(request, response);
      return call != nullptr;
    }
    const Post* const call = request.method == "POST" ? find(posts_, request) : nullptr;
    if (call != nullptr) (*call)(request, response, *body);
    return call != nullptr;
  }

 private:
  template <typename Call>
  static const Call* find(const std::vector<std::pair<std::regex, Call>>& calls,
                          const httplib::Request& request) {
    auto& matches = const_cast<httplib::Request&>(request).matches;
    for (const auto& [pattern, call] : calls) {
      if (std::regex_match(request.path, matches, pattern)) return &call;
    }
    return nullptr;
  }

  std::vector<std::pair<std::regex, Get>> gets_;
  std::vector<std::pair<std::regex, Post>> posts_;
};

/// Base of classes that implement a server's API calls. Turns errors into answers, and limits the size of
/// request bodies.
class ServerCalls {
 public:
  ServerCalls() = default;
  ServerCalls(const ServerCalls&) = delete;
  ServerCalls& operator=(const ServerCalls&) = delete;

 protected:
  using Request = httplib::Request;
  using Response = httplib::Response;
  using Call = std::function<void(const Request&, Response&, const std::string& body)>;

  ~ServerCalls() = default;

  /// Runs the API call for the request. Returns false if the server does not have this call.
  [[nodiscard]] bool answer_call(const Request& request, Response& response, BodyReader* body) const {
    return table_.answer(request, response, body);
  }

  /// Runs `act`. If it throws an Error or std::bad_alloc, answers with that error.
  template <typename Act>
  static void run_and_answer_errors(Response& response, Act&& act) {
    try {
      act();
    } catch (const Error& error) {
      answer(response, error);
    } catch (const std::bad_alloc&) {
      answer(response, 503, {ErrorKind::io, "server", "is out of memory", "Send the same request again", -1});
    }
  }

  /// Adds a POST call. Requests with more than `most` bytes in the body are refused.
  void register_call(const char* path, Call call, std::int64_t most = std::int64_t{16} << 20) {
    add_post(path, [this, most, call = std::move(call)](const Request& request, Response& response,
                                                        BodyReader& reader) {
      InFlightBytes in_flight(bytes_in_flight_);
      RequestBody body;
      if (receive_body(response, reader, most, in_flight, body))
        call(request, response, std::string(body.bytes()));
    });
  }
  void add_post(const char* path, CallTable::Post act) {
    table_.add_post_call(
        path, [act = std::move(act)](const Request& request, Response& response, BodyReader& reader) {
          run_and_answer_errors(response, [&] { act(request, response, reader); });
        });
  }
  void add_get(const char* path, CallTable::Get act) {
    table_.add_get_call(path, [act = std::move(act)](const Request& request, Response& response) {
      run_and_answer_errors(response, [&] { act(request, response); });
    });
  }

  static nlohmann::json parse_object(const std::string& body) {
    nlohmann::json parsed = nlohmann::json::parse(body.empty() ? "{}" : body, nullptr, false);
    if (!parsed.is_object()) throw InputError("body", "is not a JSON object", "Send a JSON object");
    return parsed;
  }

  std::atomic<std::int64_t> bytes_in_flight_ = 0;

 private:
  CallTable table_;
};

}  // namespace evenkeel
