#include <algorithm>
#include <numeric>
#include <vector>

#include "balance/bins/bin_bounds.hpp"
#include "balance/checks.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

std::int64_t l2_bound(const std::vector<std::int64_t>& sizes, std::int64_t capacity) {
  EVENKEEL_PRECONDITION(thorough, std::ranges::is_sorted(sizes), sizes.size());
  EVENKEEL_PRECONDITION(cheap, sizes.empty() || (sizes.front() >= 0 && sizes.back() <= capacity), capacity);
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

std::int64_t sum_bound(const balance_checks::Load& load, BinLimits limits) {
  if (load.count == 0) return 0;  // without items, no bin is needed under any limits
  EVENKEEL_PRECONDITION(cheap, limits.max_items >= 1 && (load.size == 0 || limits.max_size >= 1),
                        limits.max_items, load.size, limits.max_size);
  const std::int64_t by_count = balance_checks::ceil_div(load.count, limits.max_items);
  if (load.size <= limits.max_size) return by_count;
  return std::max(by_count, balance_checks::ceil_div(load.size, limits.max_size));
}

namespace {

std::int64_t l2_bound_of_unsorted(std::span<const std::int64_t> values, std::int64_t capacity) {
  std::vector<std::int64_t> rising(values.begin(), values.end());
  std::ranges::sort(rising);
  return l2_bound(rising, capacity);
}

}  // namespace

std::int64_t min_bins_lower_bound(BinItems items, BinLimits limits) {
  const balance_checks::Load load = balance_checks::checked_load_within(items, limits);
  std::int64_t bound = sum_bound(load, limits);
  if (load.size > limits.max_size)
    bound = std::max(bound, l2_bound_of_unsorted(items.sizes, limits.max_size));
  if (!items.counts.empty() && load.count > limits.max_items)
    bound = std::max(bound, l2_bound_of_unsorted(items.counts, limits.max_items));
  return bound;
}

}  // namespace evenkeel
