#include "balance/groups/grouped_items.hpp"

#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

Partition partition_by_group(std::span<const Item> items, std::span<const std::int32_t> group_of_each,
                             std::int64_t groups) {
  EVENKEEL_PRECONDITION(cheap, items.size() == group_of_each.size(), items.size(), group_of_each.size());
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(groups) + 1);
  for (const std::int32_t group : group_of_each) ++offsets[static_cast<std::size_t>(group) + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  std::vector<std::int64_t> next = offsets;
  std::vector<Item> grouped(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::int64_t& place = next[static_cast<std::size_t>(group_of_each[i])];
    grouped[static_cast<std::size_t>(place++)] = items[i];
  }
  return Partition(std::move(grouped), std::move(offsets));
}

}  // namespace evenkeel
