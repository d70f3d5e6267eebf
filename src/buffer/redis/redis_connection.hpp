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

/// Answer of Redis: null, a text, a number, or a list.
class RedisReply {
 public:
  explicit RedisReply(std::shared_ptr<const redisReply> reply) : reply_(std::move(reply)) {}

  [[nodiscard]] bool is_null() const noexcept;
  [[nodiscard]] bool is_text() const noexcept;
  [[nodiscard]] bool is_number() const noexcept;
  /// Returns the text, valid as long as this reply, or an empty text for a reply of a different type.
  [[nodiscard]] std::string_view text() const noexcept;
  [[nodiscard]] std::int64_t number() const noexcept;
  [[nodiscard]] std::vector<RedisReply> list() const;

 private:
  std::shared_ptr<const redisReply> reply_;
};

/// One connection to one server. Not thread-safe.
class RedisConnection {
 public:
  /// Throws IoError if the server cannot be reached, and ConfigError if it refuses the login.
  RedisConnection(const RedisAddress& address, const RedisAddress::Server& server,
                  std::chrono::milliseconds patience);

  /// Runs one command. Throws IoError, after which the connection cannot be used unless is_open(), and
  /// LimitError if Redis is out of memory.
  RedisReply call(std::span<const std::string_view> words);
  RedisReply call(std::initializer_list<std::string_view> words) {
    return call(std::span<const std::string_view>(words.begin(), words.size()));
  }
  /// Runs a script. Its text is sent only once; afterwards, Redis finds it by its hash.
  RedisReply run(const std::string& script, std::span<const std::string> keys,
                 std::span<const std::string_view> arguments);
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  /// Returns "Redis at host:port".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Returns the entries of INFO: version, role, memory, persistence.
  [[nodiscard]] std::map<std::string, std::string> info();

 private:
  void log_in(const RedisAddress& address);

  std::string name_;
  std::shared_ptr<redisContext> context_;
  std::map<std::string, std::string> hashes_;  // script -> hash
  bool is_open_ = true;
};

/// Connects to the master among the servers. If several servers are masters, as after a failover, chooses the
/// one with the most commits, as recorded in the field `commits` of the hash at the key `about`. Throws
/// IoError that lists the problem with each server, and ConfigError if a server refuses the login.
[[nodiscard]] std::unique_ptr<RedisConnection> connect_to_master(const RedisAddress& address,
                                                                 const std::string& about,
                                                                 std::chrono::milliseconds patience);

/// Redis keys of one buffer. Braces in the keys place all of them on the same node of a cluster.
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
