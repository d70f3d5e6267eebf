#include "buffer/redis/redis_address.hpp"

#include <optional>
#include <string_view>

#include "base/text/parse_number.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

constexpr std::string_view tcp_scheme = "redis://";
constexpr std::string_view unix_scheme = "redis+unix://";
constexpr int max_database = 1'000'000;

class UrlParts {
 public:
  UrlParts(std::string_view rest, std::string where) : rest_(rest), where_(std::move(where)) {}

  [[noreturn]] void reject(const std::string& what) const {
    throw ConfigError(where_, what,
                      "Write redis://HOST, or redis://:PASSWORD@HOST:PORT/DATABASE, or redis+unix:///PATH");
  }

  void parse_login(RedisAddress& address) {
    const std::size_t at = rest_.rfind('@');
    if (at == std::string_view::npos) return;
    const std::string_view login = rest_.substr(0, at);
    const std::size_t colon = login.find(':');
    address.user = percent_decode(login.substr(0, colon));
    if (colon != std::string_view::npos) address.password = percent_decode(login.substr(colon + 1));
    rest_ = rest_.substr(at + 1);
  }

  void parse_database(RedisAddress& address) {
    const std::size_t slash = rest_.find('/');
    if (slash == std::string_view::npos) return;
    const std::string_view text = rest_.substr(slash + 1);
    rest_ = rest_.substr(0, slash);
    if (text.empty()) return;
    const std::optional<int> number = parse_as<int>(text);
    if (!number || *number < 0 || *number > max_database)
      reject("has the database '" + std::string(text) + "'; it must be a number from 0 to " +
             std::to_string(max_database));
    address.database = *number;
  }

  void parse_servers(RedisAddress& address) {
    while (true) {
      const std::size_t comma = rest_.find(',');
      address.servers.push_back(parse_server(rest_.substr(0, comma)));
      if (comma == std::string_view::npos) return;
      rest_ = rest_.substr(comma + 1);
    }
  }

  [[nodiscard]] std::string_view remaining_text() const noexcept { return rest_; }

 private:
  [[nodiscard]] RedisAddress::Server parse_server(std::string_view text) const {
    RedisAddress::Server server;
    const std::size_t bracket = text.starts_with('[') ? text.find(']') : std::string_view::npos;
    const std::size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
    std::string_view host = text.substr(0, colon);
    if (bracket != std::string_view::npos) host = text.substr(1, bracket - 1);
    if (host.empty()) reject("has no host");
    server.host = host;
    if (colon == std::string_view::npos) return server;
    const std::optional<std::uint16_t> port = parse_as<std::uint16_t>(text.substr(colon + 1));
    // Does not show the text, which is the password if the user forgot the host.
    if (!port || *port == 0) reject("has a port that is not a number from 1 to 65535");
    server.port = *port;
    return server;
  }

  [[nodiscard]] std::string percent_decode(std::string_view text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        out += text[i];
        continue;
      }
      const auto byte =
          i + 2 < text.size() ? parse_hexadecimal_as<unsigned char>(text.substr(i + 1, 2)) : std::nullopt;
      if (!byte) reject("has a '%' in the user or the password without two hexadecimal digits after it");
      out += static_cast<char>(*byte);
      i += 2;
    }
    return out;
  }

  std::string_view rest_;
  std::string where_;
};

}  // namespace

std::string RedisAddress::Server::name() const {
  if (host.starts_with('/')) return host;
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

std::string RedisAddress::name() const {
  std::string out;
  for (const Server& server : servers) out += (out.empty() ? "" : ",") + server.name();
  return database == 0 ? out : out + "/" + std::to_string(database);
}

bool is_redis_url(const std::string& text) {
  return text.starts_with("redis");
}

RedisAddress parse_redis_address(const std::string& url, const std::string& where) {
  const std::string_view text = url;
  if (text.starts_with("rediss://")) {
    throw ConfigError(where, "uses TLS, which Evenkeel does not support for Redis",
                      "Use redis:// over a private network, or through a tunnel such as stunnel");
  }
  RedisAddress address;
  if (text.starts_with(unix_scheme)) {
    UrlParts parts(text.substr(unix_scheme.size()), where);
    parts.parse_login(address);
    if (!parts.remaining_text().starts_with('/')) parts.reject("has no socket path");
    address.servers.push_back({std::string(parts.remaining_text()), 0});
    return address;
  }
  const bool is_tcp = text.starts_with(tcp_scheme);
  UrlParts parts(is_tcp ? text.substr(tcp_scheme.size()) : std::string_view(), where);
  if (!is_tcp) parts.reject("is not the address of a Redis server");
  parts.parse_login(address);
  parts.parse_database(address);
  parts.parse_servers(address);
  return address;
}

}  // namespace evenkeel
