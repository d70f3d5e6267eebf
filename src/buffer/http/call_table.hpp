#pragma once

#include <httplib.h>

#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "buffer/http/answers.hpp"

namespace evenkeel {

/// Finds the call for a request by method and path. As in httplib, patterns are regular expressions that must
/// match the whole path.
class CallTable {
 public:
  using Get = std::function<void(const httplib::Request&, httplib::Response&)>;
  using Post = std::function<void(const httplib::Request&, httplib::Response&, BodyReader&)>;

  void get(const char* path, Get call) { gets_.emplace_back(path, std::move(call)); }
  void post(const char* path, Post call) { posts_.emplace_back(path, std::move(call)); }

  /// Runs the request's call: one added by get() if `body` is null, otherwise one added by post() if the
  /// method is POST. Returns false if there is no such call, without having read or answered anything.
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

}  // namespace evenkeel
