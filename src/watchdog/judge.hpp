#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/activity.hpp"
#include "evenkeel/watchdog/watchdog.hpp"

namespace evenkeel {

/// A heartbeat, as text: what a rank does.
[[nodiscard]] std::string sign_of(std::uint64_t progress, const std::string& host,
                                  const std::array<ThreadActivity, most_told_threads>& threads);

/// What a rank is known to do. Times are in seconds of the caller's clock.
struct RankState : WatchedRank {
  bool waits = false;             ///< a thread waits for other ranks
  bool stays_away = false;        ///< a thread does not wait, so others may wait for it
  bool is_ending = false;         ///< waits for others to end; ranks in other calls wait for it in vain
  bool awaits_producers = false;  ///< a thread waits for samples, however long that takes
  std::uint64_t progress = 0;     ///< in the last heartbeat
  double heard_at = 0;
  double moved_at = 0;

  void hear(const std::string& sign, double now);
  /// Sets `silent` and `still`.
  void age(double now) noexcept;
};

/// Whether a job can continue.
struct Verdict {
  enum class Kind : std::uint8_t {
    healthy,
    silent,   ///< heartbeats of the blamed ranks have stopped
    missing,  ///< nothing moves, and the blamed ranks have never sent a heartbeat, as all must where they
              ///< meet
    absent,   ///< nothing moves, and others wait for the blamed ranks
    crossed   ///< nothing moves, and all ranks wait for each other
  };
  Kind kind = Kind::healthy;
  std::vector<int> blamed;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// What it means that a rank was never heard.
enum class Unheard : std::uint8_t {
  may_be_well,   ///< UDP may be blocked, or this rank does not judge that one
  has_not_come,  ///< to the place where all ranks send heartbeats
};

/// Decides after `patience` seconds of silence or stillness, and then blames all ranks that have been silent
/// for at least half as long. If ranks that were never heard may be well, stillness proves nothing while
/// there are any. O(ranks).
[[nodiscard]] Verdict judge(std::span<const RankState> ranks, double patience,
                            Unheard unheard = Unheard::may_be_well);

/// The ranks that were never heard.
[[nodiscard]] std::vector<int> unheard(std::span<const RankState> ranks);

/// The verdict in one line, with rank, host, phase and cause. Precondition: it is not healthy.
[[nodiscard]] std::string message_of(const Verdict& verdict, std::span<const RankState> ranks,
                                     double seconds);

/// The same for a rank that waits and knows about no other rank.
[[nodiscard]] std::string message_of_waiting(const WatchedRank& rank, double seconds);

/// "rank 3", "ranks 0-2, 5"; `ranks` ascend.
[[nodiscard]] std::string named(std::span<const int> ranks);

}  // namespace evenkeel
