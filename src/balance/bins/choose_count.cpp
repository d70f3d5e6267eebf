#include "balance/bins/choose_count.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "balance/bins/capped_partition.hpp"
#include "balance/checks.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

void require_at_least(std::string_view what, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  throw InputError(std::string(what),
                   "is " + std::to_string(value) + "; it must be at least " + std::to_string(least));
}

std::int64_t fewest_of_all(std::span<const ItemsOfRank> ranks, BinLimits limits, GroupTiming timing) {
  std::int64_t count = timing.min_count;
  for (const ItemsOfRank& rank : ranks)
    count = std::max(count, count_groups(rank.costs, rank.sizes, limits).needed);
  return balance_checks::ceil_div(count, timing.multiple) * timing.multiple;
}

Cost time_at(std::int64_t count, std::span<const ItemsOfRank> ranks, BinLimits limits, GroupTiming timing) {
  std::vector<std::vector<Cost>> costs;
  for (const ItemsOfRank& rank : ranks)
    costs.push_back(group_sums(partition_under_limits(rank.costs, rank.sizes, limits, count), rank.costs));
  return estimated_time(costs, timing);
}

/// What the rank with most to do takes, however its items are grouped.
Cost least_work(std::span<const ItemsOfRank> ranks) {
  Cost most = 0;
  for (const ItemsOfRank& rank : ranks)
    most = std::max(most, std::accumulate(rank.costs.begin(), rank.costs.end(), Cost{0}));
  return most;
}

}  // namespace

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

CountChoice choose_count(std::span<const ItemsOfRank> ranks, BinLimits limits, GroupTiming timing) {
  require_at_least("overhead", timing.overhead, 0);
  require_at_least("stages", timing.stages, 1);
  require_at_least("multiple", timing.multiple, 1);
  require_at_least("min_count", timing.min_count, 1);
  const std::int64_t fewest = fewest_of_all(ranks, limits, timing);
  CountChoice choice{fewest, fewest, time_at(fewest, ranks, limits, timing)};
  const Cost work = least_work(ranks);
  constexpr std::int64_t most_tries = 8;
  for (std::int64_t tries = 1; tries < most_tries; ++tries) {
    const std::int64_t count = fewest + tries * timing.multiple;
    if (work + count * timing.overhead >= choice.time) break;
    const Cost time = time_at(count, ranks, limits, timing);
    if (time < choice.time) choice = {count, fewest, time};
  }
  return choice;
}

}  // namespace evenkeel
