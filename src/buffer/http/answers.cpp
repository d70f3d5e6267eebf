#include "buffer/http/answers.hpp"

#include <strings.h>

#include <algorithm>

#include "buffer/buffer.hpp"
#include "buffer/http/connection.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Compares tokens in constant time, so that the duration does not reveal how many bytes of a guess are
/// correct.
bool are_tokens_equal(std::string_view given, std::string_view token) {
  unsigned difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size() && i < token.size(); ++i)
    difference |= static_cast<unsigned char>(given[i] ^ token[i]);
  return difference == 0;
}

/// Returns the token in an Authorization header; empty if the scheme is not Bearer. Schemes are
/// case-insensitive.
std::string bearer_token(const std::string& authorization) {
  constexpr std::string_view scheme = "Bearer ";
  if (::strncasecmp(authorization.c_str(), scheme.data(), scheme.size()) != 0) return {};
  return authorization.substr(
      std::min(authorization.find_first_not_of(' ', scheme.size()), authorization.size()));
}

int http_status_of(const Error& error) {
  if (dynamic_cast<const UnknownGroupError*>(&error) != nullptr) return 404;
  if (dynamic_cast<const FieldsError*>(&error) != nullptr) return 409;
  if (dynamic_cast<const FullError*>(&error) != nullptr) return 429;
  if (dynamic_cast<const FencedError*>(&error) != nullptr) return 410;
  if (dynamic_cast<const RulesError*>(&error) != nullptr) return 412;
  if (dynamic_cast<const BusyError*>(&error) != nullptr) return 423;
  switch (error.report().kind) {
    case ErrorKind::limit:
      return 413;
    case ErrorKind::io:
      return 503;
    default:
      return 422;
  }
}

}  // namespace

void InFlightBytes::add(std::int64_t bytes) {
  mine_ += bytes;
  if ((all_ += bytes) > most_) {
    throw FullError("body",
                    "cannot be handled now: the requests and answers in progress need too much memory",
                    "Send the same request again");
  }
}

void answer(httplib::Response& response, const ordered_json& content) {
  response.set_content(content.dump(-1, ' ', false, json::error_handler_t::replace) + "\n", json_type);
}

void answer(httplib::Response& response, int status, const ErrorReport& report) {
  response.status = status;
  if (status == 429 || status == 503) response.set_header("Retry-After", "1");
  answer(response, {{"error", to_string(report)},
                    {"where", report.where},
                    {"message", report.message},
                    {"hint", report.hint}});
}

void answer(httplib::Response& response, const Error& error) {
  answer(response, http_status_of(error), error.report());
}

bool authorize(const httplib::Request& request, httplib::Response& response, const std::string& token) {
  if (token.empty() || are_tokens_equal(bearer_token(request.get_header_value("Authorization")), token))
    return true;
  response.set_header("WWW-Authenticate", "Bearer");
  const bool has_none = !request.has_header("Authorization");
  answer(response, 401,
         {ErrorKind::config, "Authorization", has_none ? "is missing" : "does not have the right token",
          "Send Authorization: Bearer TOKEN, with the token in the server's token file", -1});
  return false;
}

bool receive_body(httplib::Response& response, Connection& connection, std::int64_t most,
                  InFlightBytes& in_flight, BodySink& body) {
  const std::int64_t announced_bytes = connection.announced_bytes();
  body.set_expected_bytes(std::min(announced_bytes, most));
  ssize_t bytes = 0;
  try {
    while (announced_bytes <= most && body.size() <= most &&
           (announced_bytes == 0 || body.size() < announced_bytes) &&
           (bytes = connection.read_body(body.receive_buffer())) > 0) {
      in_flight.add(bytes);
      body.mark_received(bytes);
    }
  } catch (const FullError& error) {
    answer(response, error);
    return false;
  }
  if (announced_bytes > most || body.size() > most) {
    answer(response, 413,
           {ErrorKind::limit, "body", "has more than " + std::to_string(most) + " bytes",
            "Split it into several requests", -1});
    return false;
  }
  if (bytes < 0) {
    answer(response, 400,
           {ErrorKind::input, "body", "is malformed or truncated, or did not arrive in time",
            "Send the same request again", -1});
    return false;
  }
  return true;
}

}  // namespace evenkeel
