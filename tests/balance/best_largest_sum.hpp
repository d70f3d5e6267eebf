#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Tries every assignment of a few items.
class ExhaustiveSearch {
 public:
  ExhaustiveSearch(std::span<const Cost> costs, std::int64_t k, GroupSize group_size)
      : costs_(costs), sums_(static_cast<std::size_t>(k)), counts_(sums_.size()) {
    if (group_size == GroupSize::equal) {
      quota_ = costs.size() / sums_.size();
      extra_ = costs.size() % sums_.size();
    }
  }

  Cost best_largest_sum(std::size_t next = 0) {
    if (next == costs_.size()) return *std::ranges::max_element(sums_);
    Cost best = std::numeric_limits<Cost>::max();
    for (std::size_t g = 0; g < sums_.size(); ++g) {
      if (counts_[g] > quota_ || (counts_[g] == quota_ && extra_ == 0)) continue;
      const std::size_t from_extra = counts_[g] == quota_ ? 1 : 0;
      sums_[g] += costs_[next];
      ++counts_[g];
      extra_ -= from_extra;
      best = std::min(best, best_largest_sum(next + 1));
      sums_[g] -= costs_[next];
      --counts_[g];
      extra_ += from_extra;
    }
    return best;
  }

 private:
  std::span<const Cost> costs_;
  std::vector<Cost> sums_;
  std::vector<std::size_t> counts_;
  std::size_t quota_ = std::numeric_limits<std::size_t>::max();
  std::size_t extra_ = 0;  ///< number of groups that may still exceed the quota by one
};

/// Returns the optimum by exhaustive search; exponential. Precondition: k >= 1.
inline Cost best_largest_sum(std::span<const Cost> costs, std::int64_t k, GroupSize group_size) {
  return ExhaustiveSearch(costs, k, group_size).best_largest_sum();
}

}  // namespace evenkeel
