#include "balance/partition/refine.hpp"

#include <algorithm>
#include <string>

#include "balance/groups/exchanges.hpp"
#include "balance/quality.hpp"
#include "base/list_checks.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

void require_equal_counts(const Partition& partition) {
  const std::int64_t fewest = partition.num_items() / partition.size();
  const std::int64_t most = fewest + (partition.num_items() % partition.size() != 0 ? 1 : 0);
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    const auto count = static_cast<std::int64_t>(partition[g].size());
    if (count < fewest || count > most) {
      throw InputError("start", "group " + std::to_string(g) + " has " + std::to_string(count) +
                                    " items, and equal counts are " + std::to_string(fewest) + " or " +
                                    std::to_string(most));
    }
  }
}

}  // namespace

Partition refine(std::span<const Cost> costs, Partition start, GroupSize group_size) {
  if (start.num_items() != static_cast<std::int64_t>(costs.size())) {
    throw InputError("start", std::to_string(start.num_items()) + " items for " +
                                  std::to_string(costs.size()) + " costs; there must be as many");
  }
  EVENKEEL_PRECONDITION(thorough, is_permutation(start.items(), start.num_items()), start.num_items());
  const Cost bound = max_sum_lower_bound(costs, start.size(), group_size);
  if (group_size == GroupSize::equal) require_equal_counts(start);
  GroupExchanges groups(start, costs, {.keep_counts = group_size == GroupSize::equal});
  if (!groups.even_out(bound)) return start;
  return groups.result();
}

}  // namespace evenkeel
