#include "buffer/door_words.hpp"

#include <nlohmann/json.hpp>

#include "evenkeel/base/error.hpp"

namespace evenkeel {

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

bool is_token(std::string_view given, std::string_view token) {
  unsigned difference = given.size() == token.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size() && i < token.size(); ++i)
    difference |= static_cast<unsigned char>(given[i] ^ token[i]);
  return difference == 0;
}

std::int64_t number_at(const nlohmann::json& in, const char* name, std::int64_t least) {
  const bool is_there = in.contains(name) && in[name].is_number_integer();
  if (!is_there || in[name].get<std::int64_t>() < least) {
    throw InputError("body", "has no '" + std::string(name) + "' from " + std::to_string(least) + " on",
                     "Send {\"" + std::string(name) + "\": " + std::to_string(least) + "}");
  }
  return in[name].get<std::int64_t>();
}

std::vector<std::int64_t> arrivals_of(const nlohmann::json& asked) {
  if (!asked.contains("arrivals") || !asked["arrivals"].is_array())
    throw InputError("body", "has no list 'arrivals'");
  std::vector<std::int64_t> arrivals;
  for (const nlohmann::json& arrival : asked["arrivals"]) {
    if (!arrival.is_number_integer()) throw InputError("body", "has arrivals that are no integers");
    arrivals.push_back(arrival);
  }
  return arrivals;
}

Packing packing_of(const std::string& encoding) {
  if (encoding.empty() || encoding == "identity") return Packing::none;
  if (encoding == "gzip" || encoding == "x-gzip") return Packing::gzip;
  if (encoding == "zstd") return Packing::zstd;
  throw InputError("Content-Encoding", "is '" + encoding + "'", "Send gzip, zstd, or nothing");
}

}  // namespace evenkeel
