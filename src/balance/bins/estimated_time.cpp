#include "balance/bins/estimated_time.hpp"

#include <algorithm>

namespace evenkeel {

Cost default_overhead(const CostModel& model) {
  constexpr std::int64_t tokens = 256;
  return model(tokens);
}

Cost estimated_time(std::span<const std::vector<Cost>> costs_of_ranks, GroupTiming timing) {
  std::vector<Cost> peaks;
  for (const std::vector<Cost>& costs : costs_of_ranks) {
    peaks.resize(std::max(peaks.size(), costs.size()), 0);
    for (std::size_t j = 0; j < costs.size(); ++j) peaks[j] = std::max(peaks[j], costs[j]);
  }
  Cost time = 0;
  Cost largest = 0;
  for (const Cost peak : peaks) {
    time += timing.overhead + peak;
    largest = std::max(largest, peak);
  }
  return peaks.empty() ? 0 : time + (timing.stages - 1) * (timing.overhead + largest);
}

}  // namespace evenkeel
