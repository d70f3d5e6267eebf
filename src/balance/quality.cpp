#include "balance/quality.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "balance/checks.hpp"
#include "balance/partition/item_order.hpp"

namespace evenkeel {
namespace {

/// Ascending costs, with prefix sums.
class RankedCosts {
 public:
  explicit RankedCosts(std::span<const Cost> costs) : sums_below_(costs.size() + 1) {
    std::size_t rank = 0;
    for (const CostedItem& entry : ascending_items(costs)) {
      sums_below_[rank + 1] = sums_below_[rank] + entry.cost;
      ++rank;
    }
  }

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(sums_below_.size()) - 1; }
  [[nodiscard]] Cost sum(std::int64_t first, std::int64_t count) const {
    return sums_below_[static_cast<std::size_t>(first + count)] -
           sums_below_[static_cast<std::size_t>(first)];
  }

 private:
  std::vector<Cost> sums_below_;
};

/// Returns the bound by the pigeonhole principle: some group contains j of the (j - 1) k + 1 largest items,
/// so it costs at least as much as the j smallest of these. If every group must have `fewest` items, this
/// group also has fewest - j other items, which cost at least as much as the smallest items of all.
Cost crowding_bound(const RankedCosts& costs, std::int64_t k, std::int64_t fewest) {
  Cost bound = 0;
  for (std::int64_t j = 1; (j - 1) * k < costs.size(); ++j) {
    const Cost crowd = costs.sum(costs.size() - 1 - (j - 1) * k, j);
    bound = std::max(bound, crowd + costs.sum(0, std::max<std::int64_t>(fewest - j, 0)));
  }
  return bound;
}

/// Returns the bound that follows from the t largest items, maximized over t. These items are in at most t
/// groups; t groups that contain them have at least t (fewest - 1) other items.
Cost shared_group_bound(const RankedCosts& costs, std::int64_t k, std::int64_t fewest) {
  Cost bound = 0;
  for (std::int64_t t = 1; t <= std::min(k, costs.size()); ++t) {
    const Cost held =
        costs.sum(costs.size() - t, t) + costs.sum(0, t * std::max<std::int64_t>(fewest - 1, 0));
    bound = std::max(bound, balance_checks::ceil_div(held, t));
  }
  return bound;
}

}  // namespace

Cost max_sum_lower_bound(std::span<const Cost> costs, std::int64_t k, GroupSize group_size) {
  balance_checks::require_valid_num_groups(k);
  const Cost sum = balance_checks::checked_sum(costs, "costs");
  if (costs.empty()) return 0;
  const RankedCosts ranked(costs);
  const std::int64_t fewest = group_size == GroupSize::equal ? ranked.size() / k : 0;
  return std::max({balance_checks::ceil_div(sum, k), crowding_bound(ranked, k, fewest),
                   shared_group_bound(ranked, k, fewest)});
}

BalanceQuality balance_quality(std::span<const Cost> sums) {
  if (sums.empty()) return {};
  const auto [min, max] = std::ranges::minmax(sums);
  const double total = std::accumulate(sums.begin(), sums.end(), 0.0);
  const double mean = total / static_cast<double>(sums.size());
  return {min, max, mean, mean > 0 ? static_cast<double>(max) / mean : 1.0};
}

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
