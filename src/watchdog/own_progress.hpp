#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "base/activity.hpp"

namespace evenkeel {

/// Whether this process makes progress, as sampled by one thread, whose own processor time does not count.
class OwnProgress {
 public:
  /// Looks at the process, `seconds` after the last time.
  void sample(double seconds);
  /// Has changed since an earlier sample if the process has made progress in between.
  [[nodiscard]] std::uint64_t count() const noexcept { return efforts_; }

 private:
  /// Processor time in seconds.
  struct Used {
    double total = 0;
    double at_work = 0;  ///< since the last effort
  };

  void take_processor_time();
  [[nodiscard]] bool has_worked();
  [[nodiscard]] bool has_moved_bytes();
  [[nodiscard]] bool waits_for_disk();
  [[nodiscard]] std::string contents(const std::string& path);

  std::array<ThreadActivity, most_told_threads> threads_{};
  std::map<std::int32_t, Used> used_;  // by the system's number of the thread; 0: all that have ended
  double passed_ = 0;                  // seconds since the last effort
  std::uint64_t moves_ = 0;
  std::uint64_t efforts_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t read_here_ = 0;  // bytes read by contents()
};

}  // namespace evenkeel
