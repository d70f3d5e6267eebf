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

/// What Redis answered: nothing, a text, a number, or a list.
class RedisReply {
 public:
  explicit RedisReply(std::shared_ptr<const redisReply> reply) : reply_(std::move(reply)) {}

  [[nodiscard]] bool is_nothing() const noexcept;
  [[nodiscard]] bool is_text() const noexcept;
  [[nodiscard]] bool is_number() const noexcept;
  /// None if it is something else. The text lives as long as this reply.
  [[nodiscard]] std::string_view text() const noexcept;
  [[nodiscard]] std::int64_t number() const noexcept;
  [[nodiscard]] std::vector<RedisReply> list() const;

 private:
  std::shared_ptr<const redisReply> reply_;
};

/// One connection to one server, for one thread at a time.
class RedisConnection {
 public:
  /// Throws IoError if nobody is there, and ConfigError if it does not let this user in.
  RedisConnection(const RedisAddress& address, const RedisAddress::Server& server,
                  std::chrono::milliseconds patience);

  /// One command. Throws IoError, after which the connection is of no more use unless is_open(), and
  /// LimitError where Redis has no memory left.
  RedisReply call(std::span<const std::string_view> words);
  RedisReply call(std::initializer_list<std::string_view> words) {
    return call(std::span<const std::string_view>(words.begin(), words.size()));
  }
  /// A script. Redis remembers it by its hash, so that its text is sent once.
  RedisReply run(const std::string& script, std::span<const std::string> keys,
                 std::span<const std::string_view> arguments);
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  /// "host:port"
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// What INFO says: version, role, memory, persistence.
  [[nodiscard]] std::map<std::string, std::string> info();

 private:
  void log_in(const RedisAddress& address);

  std::string name_;
  std::shared_ptr<redisContext> context_;
  std::map<std::string, std::string> hashes_;  // of scripts
  bool is_open_ = true;
};

/// A connection to the master among the servers; of several that say they are, as after a failover, to the
/// one whose hash `about` counts most `commits`. Throws IoError that says what is wrong with each.
[[nodiscard]] std::unique_ptr<RedisConnection> connect_to_master(const RedisAddress& address,
                                                                 const std::string& about,
                                                                 std::chrono::milliseconds patience);

/// The keys of one buffer. The braces keep them together in a cluster.
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
