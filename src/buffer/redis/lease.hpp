#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "buffer/redis/redis_connection.hpp"

namespace evenkeel {

struct LeaseTimes {
  std::chrono::milliseconds valid{5000};    ///< time after which the lease lapses unless it is renewed
  std::chrono::milliseconds between{1000};  ///< interval between attempts to acquire or renew the lease
};

/// Exclusive right to write to a store in Redis that several servers share. The holder's value, a random
/// token and its URL, is stored at a Redis key that expires unless it is renewed. Until stop_and_release() is
/// called, a thread renews the key or, while another server holds the lease, tries to acquire it. Every
/// commit passes the holder's value, so Redis can refuse commits from a server that has lost the lease.
class Lease {
 public:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::string value;   ///< value of the lease's Redis key if this server holds the lease, otherwise empty
    std::string holder;  ///< URL of the server that holds the lease; empty if unknown
    Clock::time_point valid_until{};

    /// Returns whether this server certainly holds the lease now and has held it continuously since `value`
    /// was set.
    [[nodiscard]] bool is_held() const { return !value.empty() && Clock::now() < valid_until; }
  };

  /// Acquires the lease if no server holds it. `name` is the name of the buffer, and `url` is the URL of this
  /// server. Throws IoError if Redis cannot be reached, and ConfigError if it refuses the login.
  Lease(RedisAddress address, const std::string& name, std::string url, LeaseTimes times = {});
  /// Calls stop_and_release().
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  [[nodiscard]] State state() const;
  /// Waits until the value or the holder differs from that in `before`, or stop_and_release() is called.
  /// Returns the current state.
  [[nodiscard]] State wait_for_change_from(const State& before) const;
  /// Releases the lease and never acquires it again. Call this after the last write.
  void stop_and_release();

 private:
  void acquire_or_renew();
  void renew_until_ended();
  void release();

  const RedisAddress address_;
  const RedisKeys keys_;
  const std::string url_;
  const LeaseTimes times_;
  std::unique_ptr<RedisConnection> connection_;  // used only by `thread_` while that thread runs
  std::string candidate_;  // value of the lease's Redis key that this server sets to acquire the lease

  mutable std::mutex mutex_;  // guards `state_` and `is_ending_`
  mutable std::condition_variable changed_;
  State state_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace evenkeel
