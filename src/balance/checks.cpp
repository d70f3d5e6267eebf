#include "balance/checks.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "base/text_layout.hpp"
#include "cost/sum_limit.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel::balance_checks {

std::int64_t checked_sum(std::span<const std::int64_t> values, std::string_view what) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0) {
      throw InputError(std::string(what), "the value of item " + std::to_string(i) + " is " +
                                              std::to_string(values[i]) + "; it must be at least 0");
    }
    if (values[i] >= sum_limit - sum) {
      throw InputError(std::string(what), "the sum reaches the limit of 2^62 at item " + std::to_string(i),
                       "Use a larger unit, which makes the numbers smaller");
    }
    sum += values[i];
  }
  return sum;
}

void require_valid_num_groups(std::int64_t k) {
  if (k < 1) throw InputError("k", "is " + std::to_string(k) + "; it must be at least 1");
}

namespace {

/// Returns the sum of the counts. Throws InputError if a count is invalid, and LimitError if a count is above
/// limits.max_items.
std::int64_t checked_total_count_within(BinItems items, BinLimits limits) {
  const auto n = static_cast<std::int64_t>(items.sizes.size());
  const auto require_fit = [&](Item item, std::int64_t count) {
    if (count <= limits.max_items) return;
    throw LimitError("max_items",
                     "item " + std::to_string(item) + " does not fit in any bin: its count is " +
                         std::to_string(count) + ", but a bin holds at most " +
                         format_plain_count(limits.max_items, "item"),
                     "Raise max_items");
  };
  if (items.counts.empty()) {
    if (n > 0) require_fit(0, 1);
    return n;
  }
  if (items.counts.size() != items.sizes.size()) {
    throw InputError("counts", format_there_are(std::ssize(items.counts), "count") + " for " +
                                   format_plain_count(n, "size") + "; the two numbers must be equal");
  }
  const std::int64_t sum = checked_sum(items.counts, "counts");
  for (Item item = 0; item < n; ++item) {
    if (items.count_of(item) < 1)
      throw InputError("counts", "the count of item " + std::to_string(item) + " is " +
                                     std::to_string(items.count_of(item)) + "; it must be at least 1");
    require_fit(item, items.count_of(item));
  }
  return sum;
}

}  // namespace

Load checked_load_within(BinItems items, BinLimits limits) {
  const Load load{checked_sum(items.sizes, "sizes"), checked_total_count_within(items, limits)};
  for (std::size_t i = 0; i < items.sizes.size(); ++i) {
    if (items.sizes[i] > limits.max_size) {
      throw LimitError("sizes",
                       "item " + std::to_string(i) + " has size " + std::to_string(items.sizes[i]) +
                           ", above the limit of " + std::to_string(limits.max_size),
                       "Raise the limit");
    }
  }
  return load;
}

bool are_within(const Partition& groups, BinItems items, BinLimits limits) {
  const std::vector<std::int64_t> sums = group_sums(groups, items.sizes);
  if (std::ranges::any_of(sums, [&](std::int64_t sum) { return sum > limits.max_size; })) return false;
  for (std::int64_t g = 0; g < groups.size(); ++g) {
    auto count = static_cast<std::int64_t>(groups[g].size());
    if (!items.counts.empty()) {
      count = 0;
      for (const Item item : groups[g]) count += items.count_of(item);
    }
    if (count > limits.max_items) return false;
  }
  return true;
}

}  // namespace evenkeel::balance_checks
