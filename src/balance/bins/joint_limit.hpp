#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace evenkeel {

/// An amount of each item, and the maximum total amount in a bin.
struct LimitedAmount {
  std::span<const std::int64_t> of_items;  ///< amount of each of the n items; non-negative
  std::int64_t most = 0;                   ///< maximum total amount in a bin; at least 1
};

/// Several limits combined into a single limit on counts, which every algorithm supports (BinItems::counts,
/// BinLimits::max_items).
struct JointLimit {
  /// Count of each item, at least 1. Empty, which means 1 for each item, if all items together are within
  /// every limit.
  std::vector<std::int64_t> counts;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();  ///< maximum total count of a bin

  friend bool operator==(const JointLimit&, const JointLimit&) = default;
};

/// Combines limits: a bin within the joint limit is within each of the limits, and an item that is within all
/// limits on its own fits in an empty bin.
/// - For a single limit, the joint limit is equivalent.
/// - For several limits, an item's count is the largest fraction of any limit that it uses, so a bin may be
///   full before it reaches any of its limits.
/// - A limit is ignored if all n items together do not exceed it.
/// - If sums would reach 2^60, counts are rounded up more coarsely, so a bin may be full slightly below its
///   limit.
/// Preconditions: each list has n entries, none of them above the `most` of its limit. Throws InputError if a
/// sum reaches 2^62. O(n).
///
/// Example: with amounts {3, 0, 2} and a limit of 4, items 0 and 2 cannot share a bin, and item 1 can share a
/// bin with either of them.
[[nodiscard]] JointLimit join_limits(std::span<const LimitedAmount> limits, std::int64_t n);

}  // namespace evenkeel
