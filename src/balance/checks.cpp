#include "checks.hpp"

#include <string>
#include <vector>

#include "evenkeel/base/error.hpp"

namespace evenkeel::balance_checks {

std::int64_t checked_sum(std::span<const std::int64_t> values, std::string_view what) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) {
      throw InputError(std::string(what),
                       "item " + std::to_string(i) + " has " + std::to_string(values[i]) + ", below 0");
    }
    if (values[i] >= sum_limit - sum) {
      throw InputError(std::string(what), "the sum reaches 2^62 at item " + std::to_string(i),
                       "use a coarser unit");
    }
    sum += values[i];
  }
  return sum;
}

void require_groups(std::int64_t k) {
  if (k < 1) throw InputError("k", std::to_string(k) + " groups asked for; at least 1 is needed");
}

std::int64_t checked_sum_within(std::span<const std::int64_t> sizes, BinLimits limits) {
  const std::int64_t sum = checked_sum(sizes, "sizes");
  if (limits.max_items < 1 && !sizes.empty()) {
    throw LimitError("max_items",
                     "item 0 fits no bin: a bin may hold " + std::to_string(limits.max_items) + " items");
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] > limits.max_size) {
      throw LimitError("sizes", "item " + std::to_string(i) + " has size " + std::to_string(sizes[i]) +
                                    ", above the limit of " + std::to_string(limits.max_size));
    }
  }
  return sum;
}

bool are_within(const Partition& groups, std::span<const std::int64_t> sizes, BinLimits limits) {
  const std::vector<std::int64_t> sums = group_sums(groups, sizes);
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    const auto count = static_cast<std::int64_t>(groups[g].size());
    if (sums[static_cast<std::size_t>(g)] > limits.max_size || count > limits.max_items) return false;
  }
  return true;
}

}  // namespace evenkeel::balance_checks
