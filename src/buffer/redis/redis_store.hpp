#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "buffer/redis/lease.hpp"
#include "buffer/redis/redis_address.hpp"
#include "buffer/store/store.hpp"

namespace evenkeel {

struct RedisSettings {
  RedisAddress address;
  std::string name = "default";  ///< of the buffer: one Redis may have several
  std::int64_t capacity = 0;
  std::chrono::milliseconds patience{10'000};                               ///< with one answer of Redis
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< what a log should have
};

/// In Redis (6 or later) or Valkey, for who has the lease. One commit is one script there, which is refused
/// once the lease is another's, or if anything has been committed that this store does not know. What a
/// commit is worth is what its owner has set up: risk() says what may be lost.
///
/// Throws ConfigError for a name with other characters than letters, digits, '.', '_' and '-'. Throws IoError
/// if Redis cannot be reached, is too old, would evict what it has, or has something else or another format
/// under this name, and if the lease is not `lease`.
[[nodiscard]] std::unique_ptr<Store> open_redis_store(const RedisSettings& settings, const std::string& lease,
                                                      LeaseTimes times = {});

/// Throws ConfigError about `where`.
void require_redis_name(const std::string& name, const std::string& where);

}  // namespace evenkeel
