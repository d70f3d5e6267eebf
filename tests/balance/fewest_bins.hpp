#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"

namespace evenkeel {

/// Tries every packing of the items from `next` on; exponential, for a few items only.
inline std::int64_t fewest_bins(BinItems items, BinLimits limits, std::size_t next,
                                std::vector<std::int64_t>& loads, std::vector<std::int64_t>& counts) {
  if (next == items.sizes.size()) return static_cast<std::int64_t>(loads.size());
  const std::int64_t size = items.sizes[next];
  const std::int64_t count = items.count_of(static_cast<Item>(next));
  auto best = static_cast<std::int64_t>(items.sizes.size());
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    if (loads[bin] + size > limits.max_size || counts[bin] + count > limits.max_items) continue;
    loads[bin] += size;
    counts[bin] += count;
    best = std::min(best, fewest_bins(items, limits, next + 1, loads, counts));
    loads[bin] -= size;
    counts[bin] -= count;
  }
  loads.push_back(size);
  counts.push_back(count);
  best = std::min(best, fewest_bins(items, limits, next + 1, loads, counts));
  loads.pop_back();
  counts.pop_back();
  return best;
}

/// Returns the optimum by exhaustive search. Precondition: every item fits alone.
inline std::int64_t fewest_bins(BinItems items, BinLimits limits) {
  std::vector<std::int64_t> loads;
  std::vector<std::int64_t> counts;
  return fewest_bins(items, limits, 0, loads, counts);
}

inline bool keeps_limits(const Partition& partition, BinItems items, BinLimits limits) {
  const std::vector<std::int64_t> sums = group_sums(partition, items.sizes);
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    std::int64_t count = 0;
    for (const Item item : partition[g]) count += items.count_of(item);
    if (sums[static_cast<std::size_t>(g)] > limits.max_size || count > limits.max_items) return false;
  }
  return true;
}

}  // namespace evenkeel
