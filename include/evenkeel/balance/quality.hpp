#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// The largest group sum that no partition of `costs` into k groups can go below:
/// max(largest item, ceil(sum / k)); with GroupSize::equal also largest item + the m-1 smallest, m =
/// floor(n/k), at least 1. 0 for no items.
[[nodiscard]] Cost max_sum_lower_bound(std::span<const Cost> costs, std::int64_t k,
                                       GroupSize group_size = GroupSize::free);

/// How even a list of sums is.
struct BalanceQuality {
  Cost min = 0;
  Cost max = 0;
  double mean = 0;
  double max_over_mean = 1;  ///< 1 is perfect; 1 by definition when the mean is 0

  friend bool operator==(const BalanceQuality&, const BalanceQuality&) = default;
};

/// Of k sums; all zeros (and max_over_mean 1) for none.
[[nodiscard]] BalanceQuality balance_quality(std::span<const Cost> sums);

}  // namespace evenkeel
