#include <algorithm>
#include <numeric>
#include <vector>

#include "bin_bounds.hpp"
#include "checks.hpp"
#include "evenkeel/balance/bin_packing.hpp"

namespace evenkeel {

std::int64_t l2_bound(const std::vector<std::int64_t>& sizes, std::int64_t capacity) {
  const std::size_t n = sizes.size();
  const auto first_above = [&](std::int64_t size) {
    return static_cast<std::size_t>(std::ranges::upper_bound(sizes, size) - sizes.begin());
  };
  std::vector<std::int64_t> sum_before(n + 1, 0);
  std::partial_sum(sizes.begin(), sizes.end(), sum_before.begin() + 1);

  const std::size_t first_big = first_above(capacity / 2);
  std::int64_t bound = static_cast<std::int64_t>(n - first_big);
  for (std::size_t small = 0; small < first_big; ++small) {
    if (small > 0 && sizes[small] == sizes[small - 1]) continue;
    const std::size_t first_alone = std::max(first_big, first_above(capacity - sizes[small]));
    const auto num_shared = static_cast<std::int64_t>(first_alone - first_big);
    const std::int64_t room = num_shared * capacity - (sum_before[first_alone] - sum_before[first_big]);
    const std::int64_t overflow = sum_before[first_big] - sum_before[small] - room;
    const std::int64_t more = overflow > 0 ? balance_checks::ceil_div(overflow, capacity) : 0;
    bound = std::max(bound, static_cast<std::int64_t>(n - first_big) + more);
  }
  return bound;
}

std::int64_t sum_bound(std::int64_t sum, std::int64_t num_items, BinLimits limits) {
  if (num_items == 0) return 0;  // whatever the limits are
  const std::int64_t by_count = balance_checks::ceil_div(num_items, limits.max_items);
  if (sum <= limits.max_size) return by_count;
  return std::max(by_count, balance_checks::ceil_div(sum, limits.max_size));
}

std::int64_t min_bins_lower_bound(std::span<const std::int64_t> sizes, BinLimits limits) {
  const std::int64_t sum = balance_checks::checked_sum_within(sizes, limits);
  const std::int64_t simple = sum_bound(sum, static_cast<std::int64_t>(sizes.size()), limits);
  if (sum <= limits.max_size) return simple;
  std::vector<std::int64_t> rising(sizes.begin(), sizes.end());
  std::ranges::sort(rising);
  return std::max(simple, l2_bound(rising, limits.max_size));
}

}  // namespace evenkeel
