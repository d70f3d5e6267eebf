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
  std::chrono::milliseconds valid{5000};    ///< time from taking or renewing the lease until it lapses
  std::chrono::milliseconds between{1000};  ///< interval of attempts to take or renew it
};

/// Exclusive right to write, for one of several servers that share a Redis: the server whose name is the
/// value of a key. The key lapses unless it is renewed. As long as this object lives, a thread renews the key
/// or, while another server has it, tries to take it. Every commit contains the key's value, and Redis
/// refuses commits of a server that has lost the lease.
class Lease {
 public:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::string value;    ///< value of the key while this server has it, otherwise empty
    std::string holder;   ///< URL of the server that has the lease; empty if unknown
    std::string problem;  ///< why Redis cannot be reached; empty if it can
    Clock::time_point valid_until{};

    /// Returns whether this server certainly has the lease now, and has had it continuously since `value` was
    /// set.
    [[nodiscard]] bool is_held() const { return !value.empty() && Clock::now() < valid_until; }
  };

  /// Takes the lease if no server has it. Throws IoError if Redis cannot be reached, and ConfigError if it
  /// refuses the login.
  Lease(RedisAddress address, const std::string& name, std::string url, LeaseTimes times = {});
  /// Calls end().
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  [[nodiscard]] State state() const;
  [[nodiscard]] LeaseTimes times() const noexcept { return times_; }
  /// Waits until the key's value or holder differs from `before`, or end() was called.
  [[nodiscard]] State wait_for_change_from(const State& before) const;
  /// Gives the lease back and never takes it again. Call this after the last write.
  void end();

 private:
  void read_state();
  void poll();
  void release();

  const RedisAddress address_;
  const RedisKeys keys_;
  const std::string url_;
  const LeaseTimes times_;
  std::unique_ptr<RedisConnection> connection_;  // used by the thread only
  std::string candidate_;                        // value with which the thread takes the lease

  mutable std::mutex mutex_;  // guards the members below
  mutable std::condition_variable changed_;
  State state_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace evenkeel
