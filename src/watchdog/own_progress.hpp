#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "base/activity.hpp"

namespace evenkeel {

/// Detects whether this process makes progress. Only one thread may call sample(). The processor time of that
/// thread does not count as progress.
class OwnProgress {
 public:
  /// Checks for progress since the previous call, which was `seconds` ago.
  void sample(double seconds);
  /// Returns the number of calls of sample() that have detected progress.
  [[nodiscard]] std::uint64_t count() const noexcept { return progress_count_; }

 private:
  /// Processor time of a thread, in seconds.
  struct CpuTime {
    double total = 0;
    /// Processor time used while the thread was not waiting, since progress was last detected.
    double at_work = 0;
  };

  void update_cpu_time();
  [[nodiscard]] bool detect_work();
  [[nodiscard]] bool detect_moved_bytes();
  [[nodiscard]] bool waits_for_disk();
  [[nodiscard]] std::string read_file(const std::string& path);

  std::array<ThreadActivity, max_reported_threads> threads_{};
  std::map<std::int32_t, CpuTime> cpu_times_;  // by system thread id; 0 stands for all ended threads
  double passed_ = 0;                          // seconds since progress was last detected
  std::uint64_t moves_ = 0;
  std::uint64_t progress_count_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t read_here_ = 0;  // number of bytes read by read_file()
};

}  // namespace evenkeel
