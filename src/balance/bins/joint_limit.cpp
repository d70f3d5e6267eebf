#include "balance/bins/joint_limit.hpp"

#include <algorithm>

#include "balance/checks.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

__extension__ using Wide = __int128;

/// The resolution of JointLimit::counts: the capacity of a bin is divided into `whole` parts, and may be
/// exceeded by `slack` parts because of rounding.
struct Resolution {
  std::int64_t whole = 1;
  std::int64_t slack = 0;
};

bool are_within_limits(std::span<const LimitedAmount> limits, std::int64_t n) {
  return std::ranges::all_of(limits, [&](const LimitedAmount& limit) {
    return limit.most >= 1 && std::ssize(limit.of_items) == n &&
           std::ranges::all_of(limit.of_items, [&](std::int64_t amount) { return amount <= limit.most; });
  });
}

/// Returns the number of parts (`whole`) into which a bin's capacity is divided, and the slack. An item's
/// count is its amount in parts, rounded up, so rounding adds at most n parts to a bin. A bin that exceeds a
/// limit exceeds it by at least 1, which is whole / limit.most parts. If whole > n * limit.most, this is more
/// than n parts, so a slack of n parts accepts exactly the bins that are within the limit. If sums would
/// become too large, there are fewer parts, and the slack is 0.
Resolution resolution_for(std::span<const LimitedAmount> limits, std::int64_t n) {
  constexpr Wide most_of_all = Wide{1} << 60;
  Wide bins = 0;
  std::int64_t largest = 1;
  for (const LimitedAmount& limit : limits) {
    bins += balance_checks::checked_sum(limit.of_items, "amounts") / limit.most + 1;
    largest = std::max(largest, limit.most);
  }
  const Wide whole = Wide{largest} * (n + 1);
  if (whole * bins + Wide{n} * std::ssize(limits) < most_of_all) return {static_cast<std::int64_t>(whole), n};
  return {static_cast<std::int64_t>(std::max(Wide{1}, (most_of_all - n) / bins)), 0};
}

}  // namespace

JointLimit join_limits(std::span<const LimitedAmount> limits, std::int64_t n) {
  EVENKEEL_PRECONDITION(thorough, are_within_limits(limits, n), limits.size(), n);
  std::vector<LimitedAmount> binding;
  for (const LimitedAmount& limit : limits)
    if (balance_checks::checked_sum(limit.of_items, "amounts") > limit.most) binding.push_back(limit);
  if (binding.empty()) return {};
  const Resolution parts = resolution_for(binding, n);
  JointLimit joint{std::vector<std::int64_t>(static_cast<std::size_t>(n), 1), parts.whole + parts.slack};
  for (const LimitedAmount& limit : binding) {
    for (std::size_t i = 0; i < joint.counts.size(); ++i) {
      const Wide part = (Wide{limit.of_items[i]} * parts.whole + limit.most - 1) / limit.most;
      joint.counts[i] = std::max(joint.counts[i], static_cast<std::int64_t>(part));
    }
  }
  return joint;
}

}  // namespace evenkeel
