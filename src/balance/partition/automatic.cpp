#include "balance/partition/automatic.hpp"

#include <algorithm>
#include <utility>

#include "balance/groups/exchanges.hpp"
#include "balance/partition/lpt.hpp"
#include "balance/quality.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"

namespace evenkeel {

namespace {

/// Of two algorithms the one that ends nearer to the bound more often goes first; the other one may be too
/// slow to be tried.
struct Starts {
  Partition (*first)(std::span<const Cost>, std::int64_t, GroupSize);
  Partition (*second)(std::span<const Cost>, std::int64_t, GroupSize);
};

Starts starts_for(std::int64_t k, GroupSize group_size) {
  if (group_size == GroupSize::equal) return {longest_processing_time, karmarkar_karp};
  if (k > most_differenced_groups) return {longest_processing_time, nullptr};
  return {karmarkar_karp, longest_processing_time};
}

bool is_near(Cost largest, Cost bound) {
  constexpr Cost one_in = 100'000;
  return largest - bound <= bound / one_in;
}

}  // namespace

Partition balance_items(std::span<const Cost> costs, std::int64_t k, GroupSize group_size, bool refined) {
  const Cost bound = max_sum_lower_bound(costs, k, group_size);
  const auto balanced_by = [&](auto algorithm) {
    Partition start = algorithm(costs, k, group_size);
    if (!refined) return start;
    GroupExchanges groups(start, costs, {.keep_counts = group_size == GroupSize::equal});
    return groups.even_out(bound) ? groups.result() : start;
  };
  const auto largest_sum = [&](const Partition& partition) {
    return std::ranges::max(group_sums(partition, costs));
  };
  const Starts starts = starts_for(k, group_size);
  Partition first = balanced_by(starts.first);
  if (starts.second == nullptr || is_near(largest_sum(first), bound)) return first;
  Partition second = balanced_by(starts.second);
  return largest_sum(second) < largest_sum(first) ? second : first;
}

}  // namespace evenkeel
