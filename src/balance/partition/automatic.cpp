#include "balance/partition/automatic.hpp"

#include <algorithm>
#include <utility>

#include "balance/groups/exchanges.hpp"
#include "balance/partition/lpt.hpp"
#include "balance/quality.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"

namespace evenkeel {

namespace {

/// The algorithms to try. The largest sum of `first` is usually closer to max_sum_lower_bound(). `second` is
/// null if it would be too slow.
struct AlgorithmChoice {
  Partition (*first)(std::span<const Cost>, std::int64_t, GroupSize);
  Partition (*second)(std::span<const Cost>, std::int64_t, GroupSize);
};

AlgorithmChoice choose_algorithms(std::int64_t k, GroupSize group_size) {
  if (group_size == GroupSize::equal) return {longest_processing_time, karmarkar_karp};
  if (k > max_differenced_groups) return {longest_processing_time, nullptr};
  return {karmarkar_karp, longest_processing_time};
}

/// A largest sum that exceeds max_sum_lower_bound() by at most 1 / one_near of it is not improved further.
constexpr Cost one_near = 100'000;

bool is_near(Cost largest, Cost bound) {
  return largest - bound <= bound / one_near;
}

}  // namespace

Partition balance_items(std::span<const Cost> costs, std::int64_t k, GroupSize group_size, bool refined) {
  const Cost bound = max_sum_lower_bound(costs, k, group_size);
  const ExchangeRules rules{.keep_counts = group_size == GroupSize::equal};
  const auto balance_by = [&](auto algorithm) {
    Partition start = algorithm(costs, k, group_size);
    if (!refined) return start;
    GroupExchanges groups(start, costs, rules);
    return groups.even_out(bound) ? groups.result() : start;
  };
  const auto largest_sum = [&](const Partition& partition) {
    return std::ranges::max(group_sums(partition, costs));
  };
  const AlgorithmChoice algorithms = choose_algorithms(k, group_size);
  Partition best = balance_by(algorithms.first);
  if (algorithms.second == nullptr || is_near(largest_sum(best), bound)) return best;
  Partition second = balance_by(algorithms.second);
  if (largest_sum(second) < largest_sum(best)) best = std::move(second);
  if (!refined || is_near(largest_sum(best), bound)) return best;
  GroupExchanges groups(best, costs, rules);
  return groups.even_out_by_sets(bound + bound / one_near) ? groups.result() : best;
}

}  // namespace evenkeel
