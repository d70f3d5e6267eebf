#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <thread>

namespace evenkeel::cli {

/// While it lives: says `what` once that has taken `patience`, and again in ten times that, and so on, so
/// that a program that reads a large file does not look hung. Says nothing about what is done sooner, nor
/// where there is no memory or thread for it, or saying fails: the work goes on.
class SlowWork {
 public:
  using Say = std::function<void(const std::string&)>;

  /// `say` is called from a thread of its own.
  SlowWork(std::string what, Say say, std::chrono::milliseconds patience = std::chrono::seconds(1)) noexcept;

 private:
  std::jthread thread_;
};

/// "reading rollouts.jsonl (1.5 GiB)"; without the size where the file cannot be asked.
[[nodiscard]] std::string reading(const std::string& path);

}  // namespace evenkeel::cli
