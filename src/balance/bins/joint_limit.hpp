#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace evenkeel {

/// An amount of each item, and the maximum total amount in a bin.
struct LimitedAmount {
  std::span<const std::int64_t> of_items;  ///< n non-negative amounts
  std::int64_t most = 0;                   ///< at least 1
};

/// Several limits combined into one limit on counts, which every algorithm supports (BinItems::counts,
/// BinLimits::max_items).
struct JointLimit {
  std::vector<std::int64_t>
      counts;  ///< each at least 1; empty if the limits cannot be exceeded, which means 1 for each item
  std::int64_t most = std::numeric_limits<std::int64_t>::max();

  friend bool operator==(const JointLimit&, const JointLimit&) = default;
};

/// Combines limits: a bin within the joint limit is within each of the limits, and an item that is within all
/// limits by itself fits in a bin.
/// - For a single limit, the joint limit is equivalent.
/// - For several limits, an item's count is the largest fraction of any limit that it uses, so a bin may be
///   full before it reaches any of its limits.
/// - Limits that all n items together do not exceed are ignored.
/// - If sums would reach 2^60, counts are rounded up more coarsely, and a full bin may be slightly below its
///   limit.
/// Preconditions: lists have n entries, none above `most`. Throws InputError if a sum reaches 2^62. O(n).
///
/// Example: with amounts {3, 0, 2} and a limit of 4, items 0 and 2 cannot share a bin, and item 1 can share a
/// bin with either.
[[nodiscard]] JointLimit join_limits(std::span<const LimitedAmount> limits, std::int64_t n);

}  // namespace evenkeel
