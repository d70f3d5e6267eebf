#include "evenkeel/balance/quality.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "checks.hpp"

namespace evenkeel {

namespace {

Cost sum_of_smallest(std::span<const Cost> costs, std::int64_t count) {
  std::vector<Cost> copy(costs.begin(), costs.end());
  std::nth_element(copy.begin(), copy.begin() + count, copy.end());
  return std::accumulate(copy.begin(), copy.begin() + count, Cost{0});
}

}  // namespace

Cost max_sum_lower_bound(std::span<const Cost> costs, std::int64_t k, GroupSize group_size) {
  balance_checks::require_groups(k);
  const Cost sum = balance_checks::checked_sum(costs, "costs");
  if (costs.empty()) return 0;
  const Cost largest = *std::ranges::max_element(costs);
  Cost bound = std::max(largest, balance_checks::ceil_div(sum, k));
  const std::int64_t companions = static_cast<std::int64_t>(costs.size()) / k - 1;
  if (group_size == GroupSize::equal && companions > 0) {
    bound = std::max(bound, largest + sum_of_smallest(costs, companions));
  }
  return bound;
}

BalanceQuality balance_quality(std::span<const Cost> sums) {
  if (sums.empty()) return {};
  const auto [min, max] = std::ranges::minmax(sums);
  const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  const double mean = total / static_cast<double>(sums.size());
  return {min, max, mean, mean > 0 ? static_cast<double>(max) / mean : 1.0};
}

}  // namespace evenkeel
