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
  std::string name = "default";  ///< name of the buffer; a Redis server may have several buffers
  std::int64_t capacity = 0;
  std::chrono::milliseconds patience{10'000};  ///< maximum wait for a reply from Redis
  std::function<void(const std::string&)> log = [](const std::string&) {};  ///< writes a line to the log
};

/// Opens a store in Redis (6 or later) or Valkey for the server that holds the lease. Each commit runs one
/// script, which fails if another server holds the lease or if Redis has a different number of commits than
/// this store knows. The durability of commits depends on the configuration of Redis; data_loss_risk()
/// describes which data may be lost.
///
/// Throws ConfigError if the name is invalid (require_redis_name()) or Redis refuses the login. Throws
/// IoError if Redis cannot be reached, is too old, may evict data, or has other data or another format under
/// this name, or if the lease's key does not have the value `lease`. Throws InputError if the store's counts
/// of commits and bytes are damaged.
[[nodiscard]] std::unique_ptr<Store> open_redis_store(const RedisSettings& settings, const std::string& lease,
                                                      LeaseTimes times = {});

/// Throws ConfigError about `where` unless the name consists of 1 to 100 letters, digits, '.', '_' and '-'.
void require_redis_name(const std::string& name, const std::string& where);

}  // namespace evenkeel
