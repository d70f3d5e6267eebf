#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/report.hpp"

namespace evenkeel::bench {

/// Seconds that one way of doing a job took, one entry per round.
struct Samples {
  std::string name;
  std::vector<double> seconds;
};

/// Returns the middle value, or the mean of the two middle values. Precondition: not empty.
[[nodiscard]] double median(std::vector<double> values);

/// Returns the speedup of `samples` over `reference`: the median over rounds of the ratio within a round, so
/// that drift of the machine's speed cancels out. Precondition: the same number of rounds, at least one.
[[nodiscard]] double speed_against(const Samples& reference, const Samples& samples);

/// Returns the seconds that `work` takes.
[[nodiscard]] double seconds_of(const std::function<void()>& work);

/// One way of doing a job. `run` gets the number of the call, counted over all cases, which determines the
/// buffers to use.
struct Case {
  std::string name;
  std::function<void(std::size_t)> run;
};

/// Runs all cases in turn, A B C A B C ..., for `rounds` rounds after one round that is not counted.
[[nodiscard]] std::vector<Samples> measure_in_turn(std::span<const Case> cases, int rounds);

/// The amount moved by a case, and the number of the case with which its speed is compared.
struct Yardstick {
  std::int64_t bytes = 0;
  std::size_t reference = 0;
};

/// Adds a table row for every case: name, bytes, GB/s at the median, milliseconds (median, minimum, maximum),
/// and the speed relative to its reference. `yardsticks` has one entry per case.
[[nodiscard]] Table timing_table(std::string key, std::string title, std::span<const Samples> samples,
                                 std::span<const Yardstick> yardsticks);

}  // namespace evenkeel::bench
