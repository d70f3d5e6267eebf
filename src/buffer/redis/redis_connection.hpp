#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "buffer/redis/redis_address.hpp"

struct redisContext;
struct redisReply;

namespace evenkeel {

/// Reply from Redis: null, a string, a number, or a list.
class RedisReply {
 public:
  explicit RedisReply(std::shared_ptr<const redisReply> reply) : reply_(std::move(reply)) {}

  [[nodiscard]] bool is_null() const noexcept;
  /// Returns the text, which stays valid as long as this reply; empty if the reply has a different type.
  [[nodiscard]] std::string_view text() const noexcept;
  /// Returns the number; nullopt if the reply has a different type.
  [[nodiscard]] std::optional<std::int64_t> number() const noexcept;
  [[nodiscard]] std::vector<RedisReply> list() const;

 private:
  std::shared_ptr<const redisReply> reply_;
};

/// Connection to a Redis server. Not thread-safe.
class RedisConnection {
 public:
  /// Connects and logs in. `patience` limits the wait for the connection and for each reply. Throws IoError
  /// if the server cannot be reached, and ConfigError if it refuses the login.
  RedisConnection(const RedisAddress& address, const RedisAddress::Server& server,
                  std::chrono::milliseconds patience);

  /// Runs a command. Throws LimitError if Redis is out of memory, and IoError if Redis reports another error
  /// or does not reply. If it does not reply, is_open() is false from then on.
  RedisReply call(std::span<const std::string_view> words);
  RedisReply call(std::initializer_list<std::string_view> words) {
    return call(std::span<const std::string_view>(words.begin(), words.size()));
  }
  /// Runs a Lua script. Sends the script's text once, and only its hash afterwards. Throws the same
  /// exceptions as call().
  RedisReply run_script(const std::string& script, std::span<const std::string> keys,
                        std::span<const std::string_view> arguments);
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  /// Returns "Redis at host:port".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Returns the entries of the Redis command INFO, such as version, role and memory.
  [[nodiscard]] std::map<std::string, std::string> info();

 private:
  void log_in(const RedisAddress& address);

  std::string name_;
  std::shared_ptr<redisContext> context_;
  std::map<std::string, std::string> hashes_;  // hashes that Redis returned for scripts, by the script's text
  bool is_open_ = true;
};

/// Connects to the master among the servers. If several servers are masters, for example after a failover,
/// chooses the one with the most commits, as recorded in the field `commits` of the hash at the key `about`.
/// If no master can be reached, throws IoError that lists the problem with each server. Throws ConfigError if
/// a server refuses the login.
[[nodiscard]] std::unique_ptr<RedisConnection> connect_to_master(const RedisAddress& address,
                                                                 const std::string& about,
                                                                 std::chrono::milliseconds patience);

/// Redis keys of one buffer. Each key contains the buffer's name in braces, which places all of them on the
/// same node of a cluster.
struct RedisKeys {
  explicit RedisKeys(const std::string& name);

  std::string lease;
  std::string about;
  std::string bodies;
  std::string events;
  std::string seen;
  std::string notes;
};

}  // namespace evenkeel
