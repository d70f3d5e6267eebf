#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/activity.hpp"
#include "evenkeel/watchdog/watchdog.hpp"

namespace evenkeel {

/// Formats a heartbeat, a message that reports a rank's activity.
[[nodiscard]] std::string format_heartbeat(std::uint64_t progress, const std::string& host,
                                           const std::array<ThreadActivity, max_reported_threads>& threads);

/// Last known state of a rank. Times are in seconds of the caller's clock.
struct RankState : WatchedRank {
  bool waits = false;  ///< whether a thread waits for other ranks
  /// Whether any thread is not waiting (WaitFor::nobody), so the rank may be holding up the others.
  bool is_busy = false;
  /// Whether the rank is shutting down, and waits for the other ranks to do the same. A rank that waits for
  /// it in any other collective call will wait forever.
  bool is_ending = false;
  bool awaits_producers = false;  ///< whether a thread waits for samples, which may take any amount of time
  std::uint64_t progress = 0;     ///< progress reported in the last heartbeat
  double heard_at = 0;
  double moved_at = 0;

  void record_heartbeat(const std::string& heartbeat, double now);
  /// Sets `silent_seconds` and `stalled_seconds` to the seconds from `heard_at` and `moved_at` to `now`.
  void update_times(double now) noexcept;
};

/// Decision on whether a job can continue.
struct Verdict {
  enum class Kind : std::uint8_t {
    healthy,
    silent,  ///< heartbeats of the blamed ranks have stopped
    /// No rank makes progress, and the blamed ranks have never sent a heartbeat, although every rank sends
    /// one in start_watching().
    missing,
    absent,  ///< no rank makes progress, and other ranks wait for the blamed ranks
    crossed  ///< no rank makes progress, and all ranks wait for each other
  };
  Kind kind = Kind::healthy;
  std::vector<int> blamed;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// How to interpret a rank from which no heartbeat has been received.
enum class Unheard : std::uint8_t {
  may_be_running,   ///< the rank may be running: UDP may be blocked, or the rank may use a different judge
  has_not_arrived,  ///< the rank has not begun start_watching(), in which all ranks send heartbeats
};

/// Decides whether the job can continue. If the last heartbeat of any running rank is more than `patience`
/// seconds old, returns `silent` and blames all ranks that have been silent for more than `patience` / 2
/// seconds. Otherwise, returns a verdict other than healthy only if no running rank has made progress for
/// more than `patience` seconds, at least one of them waits for other ranks, and none waits for producers.
/// With Unheard::may_be_running, also requires that every running rank has been heard. O(ranks).
[[nodiscard]] Verdict judge(std::span<const RankState> ranks, double patience,
                            Unheard unheard = Unheard::may_be_running);

/// Returns the ranks from which no heartbeat has ever been received and that have not ended.
[[nodiscard]] std::vector<int> unheard_ranks(std::span<const RankState> ranks);

/// Formats the verdict in one line, with the rank, host, phase and cause. `seconds` is
/// WatchdogSettings::seconds. Precondition: the verdict is not healthy.
[[nodiscard]] std::string message_of(const Verdict& verdict, std::span<const RankState> ranks,
                                     double seconds);

/// Formats the report of a rank that waits but has no information about other ranks. `seconds` is
/// WatchdogSettings::seconds.
[[nodiscard]] std::string message_of_waiting(const WatchedRank& rank, double seconds);

/// Formats "rank 3" or "ranks 0-2, 5". Precondition: `ranks` are in ascending order.
[[nodiscard]] std::string format_ranks(std::span<const int> ranks);

}  // namespace evenkeel
