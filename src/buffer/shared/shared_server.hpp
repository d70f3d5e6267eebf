#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "buffer/redis/redis_store.hpp"
#include "buffer/server.hpp"
#include "buffer/values/value_store.hpp"
#include "stream/settings.hpp"

namespace evenkeel {

struct SharedServerSettings {
  RedisSettings store;
  stream::StreamSettings stream;
  ServerSettings server;
  /// URL at which other servers reach this server; empty for the address on which it listens.
  std::string advertised{};
  LeaseTimes times{};
  DeclaredFormats formats{};  ///< formats of fields in JSON Lines
  StoreContent content = StoreContent::stream;
  /// Folder in which clients may save and load values; empty if they may not.
  std::filesystem::path checkpoints{};
};

/// One of several servers that share a buffer, or a store of values, in Redis. The server that holds the
/// lease is active. The other servers are on standby and forward each request to the active server. When the
/// lease lapses or is released, a standby server takes over. Clients can therefore use any server, and any
/// server may fail.
class SharedServer {
 public:
  /// Starts listening. When the constructor returns, the server is active or on standby. Throws ConfigError
  /// if the settings are invalid, if Redis refuses the login, or if the server listens on all addresses and
  /// `advertised` is empty. Throws IoError if the server cannot listen or Redis cannot be used
  /// (open_redis_store()). If the server becomes active, throws InputError if the stored content is damaged
  /// or does not match the settings.
  explicit SharedServer(SharedServerSettings settings);
  ~SharedServer();
  SharedServer(const SharedServer&) = delete;
  SharedServer& operator=(const SharedServer&) = delete;

  [[nodiscard]] std::string url() const;
  /// Returns the buffer if this server is active now and serves one, otherwise null.
  [[nodiscard]] std::shared_ptr<Buffer> buffer() const;
  /// Returns the store of values if this server is active now and serves one, otherwise null.
  [[nodiscard]] std::shared_ptr<ValueStore> values() const;
  /// Returns the URL of the active server; empty if it is unknown.
  [[nodiscard]] std::string active_url() const;
  /// Answers requests until stop() is called from any thread.
  void serve();
  /// Stops the server and, after the last write, releases the lease.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace evenkeel
