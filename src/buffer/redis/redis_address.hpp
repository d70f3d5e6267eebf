#pragma once

#include <string>
#include <vector>

namespace evenkeel {

/// Where a Redis is, or the several of which one is the master at a time, and how to log in.
struct RedisAddress {
  struct Server {
    std::string host;  ///< or the path of a socket, which begins with a slash
    int port = 6379;

    [[nodiscard]] std::string name() const;  ///< "host:port", "[::1]:port", or the path
    friend bool operator==(const Server&, const Server&) = default;
  };
  std::vector<Server> servers;  ///< at least one
  std::string user{};           ///< empty: the default one
  std::string password{};
  int database = 0;

  /// Without user and password.
  [[nodiscard]] std::string name() const;
};

/// redis://[USER][:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE], or redis+unix://[...@]/PATH. User and
/// password may have %XX. Throws ConfigError about `where`, which never repeats the password.
[[nodiscard]] RedisAddress redis_address_of(const std::string& url, const std::string& where);
[[nodiscard]] bool is_redis_url(const std::string& text);

}  // namespace evenkeel
