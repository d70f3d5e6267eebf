#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace evenkeel {

/// Returns the time to sleep before the next poll, if the caller has already waited for `waited`. This is a
/// sixteenth of `waited`, but at least 50 us and at most 1 ms. The end of a short wait is detected almost
/// immediately, and a long wait takes almost no processor time. A process that wakes up thousands of times
/// per second while others yield may starve all other processes of the machine (observed with Linux 6.18).
[[nodiscard]] constexpr std::chrono::microseconds pause_after(std::chrono::microseconds waited) noexcept {
  using namespace std::chrono_literals;
  return std::clamp<std::chrono::microseconds>(waited / 16, 50us, 1ms);
}

/// Sleeps between polls. The sleeps grow longer with the age of this object.
class PollPause {
 public:
  void operator()() const {
    const auto waited = std::chrono::steady_clock::now() - since_;
    std::this_thread::sleep_for(pause_after(std::chrono::duration_cast<std::chrono::microseconds>(waited)));
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace evenkeel
