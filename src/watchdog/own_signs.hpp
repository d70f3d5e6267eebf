#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/activity.hpp"

namespace evenkeel {

/// What of this process shows that it gets on, sampled now and then by one thread, whose own use of the
/// processor does not count.
class OwnSigns {
 public:
  /// Looks at the process after `seconds` more. Takes memory for threads that it has not seen yet.
  void sample(double seconds);

  /// Differs from what it was before when the process has got on since.
  [[nodiscard]] std::uint64_t progress() const noexcept { return moves_ + efforts_; }
  /// As sampled last.
  [[nodiscard]] const std::array<ThreadActivity, most_told_threads>& threads() const noexcept {
    return threads_;
  }

 private:
  /// Processor time of one thread, or of all that have ended.
  struct Used {
    std::int32_t thread = 0;
    double seconds = 0;
    double at_work = 0;  ///< of them, since the last effort
  };

  void look_at_threads();
  [[nodiscard]] bool any_has_worked() noexcept;
  [[nodiscard]] bool waits(std::int32_t thread) const noexcept;
  [[nodiscard]] bool has_moved_bytes() noexcept;
  [[nodiscard]] bool waits_for_disk() noexcept;

  std::array<ThreadActivity, most_told_threads> threads_{};
  std::vector<Used> used_;     // in the order of the system's numbers
  std::vector<Used> earlier_;  // its memory, used in turn
  Used ended_;
  std::uint64_t moves_ = 0;
  std::uint64_t efforts_ = 0;  // progress that no thread told
  double of_process_ = 0;
  double of_own_ = 0;
  double passed_ = 0;  // since the last effort
  std::int64_t bytes_ = 0;
  std::int64_t read_here_ = 0;  // by looking, so far
};

}  // namespace evenkeel
