#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/watchdog/watchdog.hpp"

namespace evenkeel {

/// What a rank has shown of itself, as far as a decision needs it.
struct RankSigns {
  bool is_heard = false;          ///< ever
  bool has_ended = false;         ///< and said so
  double silent = 0;              ///< seconds since it was last heard
  double still = 0;               ///< seconds since it last got on with anything
  bool waits = false;             ///< a thread of it waits for other ranks
  bool stays_away = false;        ///< a thread of it waits for nobody, and so may be waited for
  bool is_ending = false;         ///< it waits for others to end, and may be waited for all the same
  bool awaits_producers = false;  ///< a thread of it waits for samples, and all others may wait for it
};

/// Whether a job can go on.
struct Verdict {
  enum class Kind : std::uint8_t {
    healthy,
    silent,   ///< the blamed ranks are not heard any more
    missing,  ///< nothing moves, and the blamed ranks were never heard, as all are that have come
    absent,   ///< nothing moves, and others wait for the blamed ranks
    crossed   ///< nothing moves, and all ranks wait for each other
  };
  Kind kind = Kind::healthy;
  std::vector<int> blamed;

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// What it says of a rank that it was never heard.
enum class Unheard : std::uint8_t {
  may_be_well,   ///< datagrams may not get through
  has_not_come,  ///< to where all give signs of life
};

/// Decides after `patience` seconds of silence or stillness; then blames all that are silent for half as
/// long, many times the interval between signs of life. Pure. Where ranks that were never heard may be
/// well, nobody is blamed for that, and while there is one, stillness says nothing. O(ranks).
[[nodiscard]] Verdict judge(std::span<const RankSigns> ranks, double patience,
                            Unheard unheard = Unheard::may_be_well);

/// The ranks that were never heard.
[[nodiscard]] std::vector<int> unheard(std::span<const RankSigns> ranks);

/// The verdict in one line, with rank, host, phase and cause. Precondition: it is not healthy.
[[nodiscard]] std::string message_of(const Verdict& verdict, std::span<const WatchedRank> ranks,
                                     double seconds);

/// The same of a rank that hears those no more that watch, all that it knows: one where the watchdogs meet,
/// then two.
[[nodiscard]] std::string message_of_silence(int rank, std::span<const int> judges, double seconds);

/// The same of one rank that waits, and that knows of no other.
[[nodiscard]] std::string message_of_waiting(const WatchedRank& rank, double seconds);

/// "rank 3", "ranks 0-2, 5", of ranks in ascending order.
[[nodiscard]] std::string named(std::span<const int> ranks);

}  // namespace evenkeel
