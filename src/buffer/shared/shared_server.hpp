#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "buffer/redis/redis_store.hpp"
#include "buffer/server.hpp"
#include "buffer/values/value_store.hpp"
#include "stream/settings.hpp"

namespace evenkeel {

struct SharedServerSettings {
  RedisSettings store;
  stream::StreamSettings stream;
  ServerSettings server;
  /// URL at which other servers reach this one; empty if it is the address on which this server listens.
  std::string advertised{};
  LeaseTimes times{};
  DeclaredFormats formats{};  ///< formats in which lines represent fields
  StoreContent content = StoreContent::stream;
  std::filesystem::path checkpoints{};  ///< folder for files of values (make_answer_function)
};

/// One of several servers for a buffer, or for a store of values, in Redis. The server that has the lease is
/// active and owns it. The others are on standby and forward each request to the active one. When the lease
/// lapses or is given back, one of them takes over. So clients may use any server, and any server may fail.
class SharedServer {
 public:
  /// Starts listening. When the constructor returns, the server is active or on standby. Throws the errors of
  /// BufferServer, Lease, open_redis_store(), Buffer and ValueStore, and ConfigError if the server listens on
  /// all addresses and `advertised` is empty.
  explicit SharedServer(SharedServerSettings settings);
  ~SharedServer();
  SharedServer(const SharedServer&) = delete;
  SharedServer& operator=(const SharedServer&) = delete;

  [[nodiscard]] std::string url() const;
  /// Returns the buffer if this server is active now and serves one, otherwise null.
  [[nodiscard]] std::shared_ptr<Buffer> buffer() const;
  /// Returns the store of values if this server is active now and serves one, otherwise null.
  [[nodiscard]] std::shared_ptr<ValueStore> values() const;
  /// Returns the URL of the active server as far as known; may be empty.
  [[nodiscard]] std::string active_url() const;
  /// Answers requests until stop() is called from any thread.
  void serve();
  /// Stops the server, and gives the lease back after the last write.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace evenkeel
