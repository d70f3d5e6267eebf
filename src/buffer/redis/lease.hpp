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
  std::chrono::milliseconds valid{5000};    ///< after it was taken or renewed
  std::chrono::milliseconds between{1000};  ///< two looks at it
};

/// Which of the doors over one Redis writes: the one that has put its name into a key there. The key lapses
/// unless it is renewed, which a thread does as long as this object lives; while another door has it, the
/// thread looks whether it still has. Each commit tells the key's value, and Redis refuses that of a door
/// that has lost it meanwhile.
class Lease {
 public:
  using Clock = std::chrono::steady_clock;
  struct State {
    std::string value;    ///< what the key has while it is ours; empty while it is not
    std::string holder;   ///< the URL of who has it; empty if nobody is known
    std::string problem;  ///< why Redis cannot be asked
    Clock::time_point valid_until{};

    /// Whether it is ours for certain: nobody else can have had it since.
    [[nodiscard]] bool is_mine() const { return !value.empty() && Clock::now() < valid_until; }
  };

  /// Takes the lease if nobody has it. Throws IoError and ConfigError if Redis cannot be asked.
  Lease(RedisAddress address, const std::string& name, std::string url, LeaseTimes times = {});
  /// Gives it back.
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  [[nodiscard]] State state() const;
  [[nodiscard]] LeaseTimes times() const noexcept { return times_; }
  /// Waits until the key's value or its holder is another than in `before`, or end() was called.
  [[nodiscard]] State changed_from(const State& before) const;
  /// Gives it back and never takes it again. Call once nothing more is to be written.
  void end();

 private:
  void look();
  void keep_looking();
  void give_back();

  const RedisAddress address_;
  const RedisKeys keys_;
  const std::string url_;
  const LeaseTimes times_;
  std::unique_ptr<RedisConnection> connection_;  // of the thread
  std::string candidate_;                        // likewise: the value to take it with

  mutable std::mutex mutex_;  // what follows
  mutable std::condition_variable changed_;
  State state_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace evenkeel
