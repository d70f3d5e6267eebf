#include "plan/assign/simple_partitions.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

std::vector<Item> all_items(std::int64_t count) {
  std::vector<Item> items(static_cast<std::size_t>(count));
  std::iota(items.begin(), items.end(), Item{0});
  return items;
}

}  // namespace

Partition contiguous_runs(std::int64_t items, std::int64_t k) {
  EVENKEEL_PRECONDITION(cheap, items >= 0 && k >= 1, items, k);
  std::vector<std::int64_t> offsets;
  for (std::int64_t g = 0; g <= k; ++g) offsets.push_back(g * (items / k) + std::min(g, items % k));
  return {all_items(items), std::move(offsets)};
}

Partition sorted_stride(std::span<const std::int64_t> lengths, std::int64_t k) {
  EVENKEEL_PRECONDITION(cheap, k >= 1, k);
  std::vector<Item> ascending = all_items(static_cast<std::int64_t>(lengths.size()));
  std::ranges::stable_sort(ascending, {}, [&](Item item) { return lengths[static_cast<std::size_t>(item)]; });
  std::vector<std::vector<Item>> groups(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < ascending.size(); ++i) groups[i % groups.size()].push_back(ascending[i]);
  return Partition(groups);
}

}  // namespace evenkeel
