#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/report.hpp"

namespace evenkeel::bench {

/// What one way of doing a job took, in seconds, one entry a round.
struct Samples {
  std::string name;
  std::vector<double> seconds;
};

/// The middle value, or the mean of the two in the middle. Precondition: not empty.
[[nodiscard]] double median(std::vector<double> values);

/// How much faster `samples` were than `reference`: the median over rounds of the ratio within a round, so
/// that drift of the machine cancels. Precondition: equally many rounds, at least one.
[[nodiscard]] double speed_against(const Samples& reference, const Samples& samples);

/// Seconds that `work` takes.
[[nodiscard]] double seconds_of(const std::function<void()>& work);

/// One way of doing a job. `run` is given the number of the call, counted over all cases, which tells the
/// buffers to use.
struct Case {
  std::string name;
  std::function<void(std::size_t)> run;
};

/// Runs all cases in turn, A B C A B C ..., `rounds` times after one round that is not counted.
[[nodiscard]] std::vector<Samples> measure_in_turn(std::span<const Case> cases, int rounds);

/// What a case moved, and the case (its number) whose speed its own is compared with.
struct Yardstick {
  std::int64_t bytes = 0;
  std::size_t reference = 0;
};

/// A table row for every case: name, bytes, GB/s at the median, milliseconds (median, least, most), and the
/// speed relative to its reference. `yardsticks` has an entry a case.
[[nodiscard]] Table timing_table(std::string key, std::string title, std::span<const Samples> samples,
                                 std::span<const Yardstick> yardsticks);

}  // namespace evenkeel::bench
