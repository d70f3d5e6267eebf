#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel::balance_checks {

/// The sum of `values`. Throws InputError when one is negative or the sum reaches `sum_limit`; `what` names
/// the list in the message.
std::int64_t checked_sum(std::span<const std::int64_t> values, std::string_view what);

/// Throws InputError when k < 1.
void require_groups(std::int64_t k);

/// What items take of bins together.
struct Load {
  std::int64_t size = 0;
  std::int64_t count = 0;
};

/// The sum over all items. Throws InputError as checked_sum does, for counts below 1 and for lists of
/// different lengths, and LimitError naming the first item that fits no empty bin.
Load checked_load_within(BinItems items, BinLimits limits);

/// Whether no group holds more than the limits allow.
bool are_within(const Partition& groups, BinItems items, BinLimits limits);

/// Rounded up. Preconditions: value >= 0, divisor >= 1.
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) {
  EVENKEEL_PRECONDITION(cheap, value >= 0 && divisor >= 1, value, divisor);
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

}  // namespace evenkeel::balance_checks
