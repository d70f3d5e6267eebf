#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "buffer/door.hpp"
#include "buffer/redis/redis_store.hpp"
#include "stream/settings.hpp"

namespace evenkeel {

struct SharedDoorSettings {
  RedisSettings store;
  stream::StreamSettings stream;
  DoorSettings door;
  std::string advertised{};  ///< where other doors reach this one; empty: where it listens
  LeaseTimes times{};
  ToldFormats formats{};  ///< how lines write fields
};

/// One of several doors to a buffer in Redis. The one that has the lease is active: it has the buffer. The
/// others stand by: they pass each request on to it, and one of them takes the buffer over when the lease
/// lapses or is given back. So any door may be asked, and any may die.
class SharedDoor {
 public:
  /// Listens, and is active or stands by on return. Throws as Door, Lease, open_redis_store and Buffer do,
  /// and ConfigError if it listens on all addresses and `advertised` does not say which one others know.
  explicit SharedDoor(SharedDoorSettings settings);
  ~SharedDoor();
  SharedDoor(const SharedDoor&) = delete;
  SharedDoor& operator=(const SharedDoor&) = delete;

  [[nodiscard]] std::string url() const;
  /// The buffer, if this door is active now.
  [[nodiscard]] std::shared_ptr<Buffer> buffer() const;
  /// Who is active, as far as this door knows; may be empty.
  [[nodiscard]] std::string active_url() const;
  /// Answers until stop() is called, from any thread.
  void serve();
  /// Gives the lease back once nothing is being written.
  void stop();

 private:
  class Doors;
  std::unique_ptr<Doors> doors_;
};

}  // namespace evenkeel
