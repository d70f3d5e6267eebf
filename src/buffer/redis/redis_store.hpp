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
  std::string name = "default";  ///< name of the buffer; one Redis may have several
  std::int64_t capacity = 0;
  std::chrono::milliseconds patience{10'000};  ///< maximum wait for one answer of Redis
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< writes a line to the log
};

/// Opens a store in Redis (6 or later) or Valkey for the server that has the lease. A commit is one script.
/// Redis refuses it if another server has the lease, or if this store has missed a commit. The durability of
/// commits depends on the configuration of Redis; data_loss_risk() states which data may be lost.
///
/// Throws ConfigError unless the name has 1 to 100 letters, digits, '.', '_' and '-'. Throws IoError if Redis
/// cannot be reached, is too old, would evict data, or has other data or another format under this name, or
/// if the lease's key does not have the value `lease`.
[[nodiscard]] std::unique_ptr<Store> open_redis_store(const RedisSettings& settings, const std::string& lease,
                                                      LeaseTimes times = {});

/// Throws ConfigError about `where` if the name is not valid in Redis keys.
void require_redis_name(const std::string& name, const std::string& where);

}  // namespace evenkeel
