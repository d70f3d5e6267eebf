#include "bench/measurement.hpp"

#include <algorithm>
#include <chrono>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel::bench {

double median(std::vector<double> values) {
  EVENKEEL_PRECONDITION(cheap, !values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double speed_against(const Samples& reference, const Samples& samples) {
  EVENKEEL_PRECONDITION(cheap, !samples.seconds.empty() && samples.seconds.size() == reference.seconds.size(),
                        samples.seconds.size(), reference.seconds.size());
  std::vector<double> ratios;
  for (std::size_t round = 0; round < samples.seconds.size(); ++round) {
    ratios.push_back(reference.seconds[round] / samples.seconds[round]);
  }
  return median(std::move(ratios));
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<Samples> measure_in_turn(std::span<const Case> cases, int rounds) {
  std::vector<Samples> samples;
  for (const Case& c : cases) samples.push_back({c.name, {}});
  std::size_t call = 0;
  for (int round = -1; round < rounds; ++round) {
    for (std::size_t c = 0; c < cases.size(); ++c, ++call) {
      const double seconds = seconds_of([&] { cases[c].run(call); });
      if (round >= 0) samples[c].seconds.push_back(seconds);
    }
  }
  return samples;
}

Table timing_table(std::string key, std::string title, std::span<const Samples> samples,
                   std::span<const Yardstick> yardsticks) {
  Table table(std::move(key), std::move(title),
              {{"case", "case"},
               {"bytes", "bytes"},
               {"gb_per_second", "GB/s", 2},
               {"ms_median", "ms, median", 3},
               {"ms_min", "least", 3},
               {"ms_max", "most", 3},
               {"reference", "against"},
               {"speed", "x", 3}});
  constexpr double ms = 1e3;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::vector<double>& seconds = samples[i].seconds;
    const double middle = median(seconds);
    const auto [bytes, number] = yardsticks[i];
    const Samples& reference = samples[number];
    table.add({samples[i].name, bytes, static_cast<double>(bytes) / middle / 1e9, middle * ms,
               std::ranges::min(seconds) * ms, std::ranges::max(seconds) * ms, reference.name,
               speed_against(reference, samples[i])});
  }
  return table;
}

}  // namespace evenkeel::bench
