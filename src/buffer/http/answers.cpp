#include "buffer/http/answers.hpp"

#include <chrono>

#include "buffer/buffer.hpp"

namespace evenkeel {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::chrono::seconds longest_body{120};
constexpr std::int64_t most_bytes_in_flight = std::int64_t{192} << 20;

/// In a time that does not tell how much of it is right.
bool is_token(std::string_view given, std::string_view token) {
  unsigned difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size() && i < token.size(); ++i)
    difference |= static_cast<unsigned char>(given[i] ^ token[i]);
  return difference == 0;
}

int status_of(const Error& error) {
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

void InFlight::add(std::int64_t bytes) {
  mine_ += bytes;
  if ((all_ += bytes) > most_bytes_in_flight) {
    throw FullError({ErrorKind::limit, "body", "cannot be taken now: too many others are being sent",
                     "Send the same again", -1});
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
  answer(response, status_of(error), error.report());
}

bool may_come_in(const httplib::Request& request, httplib::Response& response, const std::string& token) {
  if (token.empty() || is_token(request.get_header_value("Authorization"), "Bearer " + token)) return true;
  response.set_header("WWW-Authenticate", "Bearer");
  const bool has_none = !request.has_header("Authorization");
  answer(response, 401,
         {ErrorKind::config, "Authorization", has_none ? "is missing" : "has another token",
          "Send Authorization: Bearer TOKEN, with the token of the buffer's file", -1});
  return false;
}

std::string take_as_it_is(const httplib::Request& request) {
  auto& headers = const_cast<httplib::Request&>(request).headers;
  std::string encoding = request.get_header_value("Content-Encoding");
  headers.erase("Content-Encoding");
  if (request.is_multipart_form_data()) headers.erase("Content-Type");
  return encoding;
}

bool receive(const httplib::Request& request, httplib::Response& response,
             const httplib::ContentReader& reader, std::int64_t most,
             const std::function<void(std::span<const char>)>& take) {
  if (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) return true;
  const auto begun = std::chrono::steady_clock::now();
  std::int64_t bytes = 0;
  const bool is_whole = reader([&](const char* data, std::size_t size) {
    bytes += static_cast<std::int64_t>(size);
    if (bytes > most || std::chrono::steady_clock::now() - begun > longest_body) return false;
    take({data, size});
    return true;
  });
  if (is_whole) return true;
  const bool is_large = bytes > most || response.status == 413;
  response.set_header("Connection", "close");
  answer(response, is_large ? 413 : 400,
         is_large ? ErrorReport{ErrorKind::limit, "body", "has more than " + std::to_string(most) + " bytes",
                                "Send fewer samples in a request", -1}
                  : ErrorReport{ErrorKind::input, "body", "ended before its last byte", "Send the same again",
                                -1});
  return false;
}

}  // namespace evenkeel
