#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel::balance_checks {

/// Returns the sum of `values`. Throws InputError if a value is negative or the sum reaches `sum_limit`;
/// `what` names the list in the message.
std::int64_t checked_sum(std::span<const std::int64_t> values, std::string_view what);

/// Throws InputError if k < 1.
void require_valid_num_groups(std::int64_t k);

/// Total size and count of items.
struct Load {
  std::int64_t size = 0;
  std::int64_t count = 0;
};

/// Returns the total size and count of the items. Throws InputError for negative sizes, counts below 1, sums
/// that reach `sum_limit`, and lists of different lengths. Throws LimitError naming the first item that does
/// not fit in an empty bin.
Load checked_load_within(BinItems items, BinLimits limits);

/// Returns whether all groups are within the limits.
bool are_within(const Partition& groups, BinItems items, BinLimits limits);

/// Returns value / divisor, rounded up. Preconditions: value >= 0, divisor >= 1.
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) {
  EVENKEEL_PRECONDITION(cheap, value >= 0 && divisor >= 1, value, divisor);
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

}  // namespace evenkeel::balance_checks
