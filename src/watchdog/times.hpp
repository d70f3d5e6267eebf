#pragma once

#include <algorithm>

namespace evenkeel {

/// When what is done, in seconds. All that happens after an event is over within `whole`.
struct WatchdogTimes {
  WatchdogTimes(double seconds, int ranks)
      : whole(seconds),
        interval(std::min((seconds > 0 ? seconds : 60) / 16, std::max(1.0, ranks / ranks_a_second))) {}

  static constexpr double ranks_a_second = 2000;  // that a judge hears without any trouble

  /// Of a rank that can ask nobody. One after the other, so that a launcher ends the rest when one has told.
  [[nodiscard]] double patience_of(int rank) const noexcept {
    return patience + (rank == 0 ? 0 : grace * (most_turns - 1.25 / rank));
  }
  /// From then on, until the last such rank's patience ends.
  [[nodiscard]] double until_all_end(int rank) const noexcept {
    return patience + grace * most_turns - patience_of(rank);
  }

  static constexpr double most_turns = 2.25;  // in `grace`: the first rank is one ahead of the second

  double whole;                     ///< 0: nothing is ended
  double interval;                  ///< between signs of life
  double patience = whole * 3 / 4;  ///< of the first judge
  double grace = whole / 12;        ///< more: of the other judge, and at least as much of the rest
};

}  // namespace evenkeel
