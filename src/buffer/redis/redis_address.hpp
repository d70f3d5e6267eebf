#pragma once

#include <string>
#include <vector>

namespace evenkeel {

/// Address and login of a Redis server, or of several servers, one of which is the current master.
struct RedisAddress {
  struct Server {
    std::string host;  ///< host name, or path of a UNIX socket, which begins with a slash
    int port = 6379;

    [[nodiscard]] std::string name() const;  ///< returns "host:port", "[::1]:port", or the path
    friend bool operator==(const Server&, const Server&) = default;
  };
  std::vector<Server> servers;  ///< one or more servers, one of which is the current master
  std::string user{};           ///< user for the login; empty for the default user of Redis
  std::string password{};
  int database = 0;

  /// Returns the address without user and password, for messages.
  [[nodiscard]] std::string name() const;
};

/// Parses redis://[USER][:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE], or redis+unix://[...@]/PATH.
/// User and password may contain %XX. Throws ConfigError about `where` if the URL is invalid; the error never
/// contains the password.
[[nodiscard]] RedisAddress parse_redis_address(const std::string& url, const std::string& where);
[[nodiscard]] bool is_redis_url(const std::string& text);

}  // namespace evenkeel
