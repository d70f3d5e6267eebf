#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"

namespace evenkeel {

/// Tries every packing of the sizes from `next` on; exponential, for a handful of items.
inline std::int64_t fewest_bins(std::span<const std::int64_t> sizes, BinLimits limits, std::size_t next,
                                std::vector<std::int64_t>& loads, std::vector<std::int64_t>& counts) {
  if (next == sizes.size()) return static_cast<std::int64_t>(loads.size());
  auto best = static_cast<std::int64_t>(sizes.size());
  for (std::size_t bin = 0; bin < loads.size(); ++bin) {
    if (loads[bin] + sizes[next] > limits.max_size || counts[bin] == limits.max_items) continue;
    loads[bin] += sizes[next];
    ++counts[bin];
    best = std::min(best, fewest_bins(sizes, limits, next + 1, loads, counts));
    loads[bin] -= sizes[next];
    --counts[bin];
  }
  loads.push_back(sizes[next]);
  counts.push_back(1);
  best = std::min(best, fewest_bins(sizes, limits, next + 1, loads, counts));
  loads.pop_back();
  counts.pop_back();
  return best;
}

/// The optimum by trying everything. Precondition: every item fits alone.
inline std::int64_t fewest_bins(std::span<const std::int64_t> sizes, BinLimits limits) {
  std::vector<std::int64_t> loads;
  std::vector<std::int64_t> counts;
  return fewest_bins(sizes, limits, 0, loads, counts);
}

inline bool keeps_limits(const Partition& partition, std::span<const std::int64_t> sizes, BinLimits limits) {
  const std::vector<std::int64_t> sums = group_sums(partition, sizes);
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    if (sums[static_cast<std::size_t>(g)] > limits.max_size) return false;
    if (static_cast<std::int64_t>(partition[g].size()) > limits.max_items) return false;
  }
  return true;
}

}  // namespace evenkeel
