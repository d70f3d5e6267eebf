#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace evenkeel {

/// Something that items take of a bin, and how much of it a bin may hold.
struct LimitedAmount {
  std::span<const std::int64_t> of_items;  ///< 0 or more; n of them
  std::int64_t most = 0;                   ///< 1 or more
};

/// Several limits as one on counts, which every algorithm keeps (BinItems::counts, BinLimits::max_items).
struct JointLimit {
  std::vector<std::int64_t> counts;  ///< 1 or more each; none if no limit can be broken: 1 each
  std::int64_t most = std::numeric_limits<std::int64_t>::max();

  friend bool operator==(const JointLimit&, const JointLimit&) = default;
};

/// Bins that keep the joint limit keep each of the limits, and an item that keeps all of them alone fits a
/// bin. For one limit it is exact: bins that keep the one keep the other. For more an item counts for the
/// largest part that it takes of any, so that a bin may be full before any of its limits is reached. Limits
/// that all n items keep together are left out. (Where sums would reach 2^60, counts are rounded up, and a
/// full bin may be a little below its limit.) Preconditions: lists have n entries, and no entry is above
/// `most`. Throws InputError if a sum reaches 2^62. O(n).
///
/// Example: amounts {3, 0, 2}, at most 4: items 0 and 2 do not share a bin, and item 1 fits with either.
[[nodiscard]] JointLimit join_limits(std::span<const LimitedAmount> limits, std::int64_t n);

}  // namespace evenkeel
