#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace evenkeel {

/// How long to sleep before the next look at something that has not come for so long: a sixteenth of that, so
/// that it is found hardly later than it comes, and who waits for long takes next to nothing of a core. A
/// process that wakes up thousands of times a second, beside others that yield, may starve all the rest of a
/// machine (seen with Linux 6.18).
[[nodiscard]] constexpr std::chrono::microseconds pause_after(std::chrono::microseconds waited) noexcept {
  using namespace std::chrono_literals;
  return std::clamp<std::chrono::microseconds>(waited / 16, 50us, 1ms);
}

/// Sleeps between two looks, from when it is made.
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
