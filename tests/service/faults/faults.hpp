#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/base/error.hpp"

namespace evenkeel::test {

/// Ends the process instead of letting ranks wait for each other forever.
class Watchdog {
 public:
  explicit Watchdog(unsigned seconds) {
    std::signal(SIGALRM, [](int) {
      static constexpr std::string_view text = "a rank waits for one that has left the operation\n";
      [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
      _exit(1);
    });
    alarm(seconds);
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() { alarm(0); }
};

inline constexpr unsigned patience = 60;  // seconds; much longer than an operation takes

/// Returns how many allocations of an operation fail, one after another: the value of EVENKEEL_FAULTS, where
/// `all` means every allocation; by default, a few.
inline std::int64_t faults_an_operation() {
  const char* wanted = std::getenv("EVENKEEL_FAULTS");
  if (wanted == nullptr) return 6;
  if (std::string_view(wanted) == "all") return std::numeric_limits<std::int64_t>::max();
  return std::stoll(wanted);
}

/// Returns a subset of `count` allocations, spread evenly, in ascending order.
inline std::vector<std::int64_t> allocations_to_fail(std::int64_t count) {
  static const std::int64_t few = faults_an_operation();
  std::vector<std::int64_t> numbers;
  std::mt19937_64 random(static_cast<std::uint64_t>(count));
  const std::int64_t stride = std::max<std::int64_t>(1, count / few);
  for (std::int64_t n = 0; n < count; n += stride)
    numbers.push_back(
        n + (stride == 1 ? 0 : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(stride))));
  return numbers;
}

/// The outcome of an operation on this rank.
enum class Outcome : int { went_well, out_of_memory, other };

inline Outcome outcome_of(const std::function<void()>& operation) {
  try {
    operation();
    return Outcome::went_well;
  } catch (const LimitError& error) {
    if (error.report().message.find("out of memory") != std::string::npos) return Outcome::out_of_memory;
    ADD_FAILURE() << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  } catch (...) {
    ADD_FAILURE() << "thrown: something else";
  }
  return Outcome::other;
}

}  // namespace evenkeel::test
