#include "evenkeel/balance/partition.hpp"

#include <algorithm>
#include <string>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// Returns the group of each item 0..n-1; empty if the partition does not have exactly these items, each
/// once.
std::vector<std::int32_t> groups_of_items(const Partition& partition) {
  constexpr std::int32_t none = -1;
  std::vector<std::int32_t> groups(partition.items().size(), none);
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    for (const Item item : partition[g]) {
      const auto at = static_cast<std::size_t>(item);
      if (at >= groups.size() || groups[at] != none) return {};
      groups[at] = static_cast<std::int32_t>(g);
    }
  }
  return groups;
}

}  // namespace

Partition::Partition(std::vector<Item> items, std::vector<std::int64_t> offsets)
    : items_(std::move(items)), offsets_(std::move(offsets)) {
  const auto n = static_cast<std::int64_t>(items_.size());
  if (offsets_.empty() || offsets_.front() != 0 || offsets_.back() != n) {
    throw InputError("offsets", (offsets_.empty() ? "are empty"
                                                  : "run from " + std::to_string(offsets_.front()) + " to " +
                                                        std::to_string(offsets_.back())) +
                                    "; they must run from 0 to the number of items, " + std::to_string(n));
  }
  const auto fall = std::ranges::adjacent_find(offsets_, std::ranges::greater{});
  if (fall != offsets_.end()) {
    throw InputError("offsets", "decrease from " + std::to_string(*fall) + " to " +
                                    std::to_string(*(fall + 1)) + " at group " +
                                    std::to_string(fall - offsets_.begin()));
  }
}

Partition::Partition(std::span<const std::vector<Item>> groups) {
  offsets_.reserve(groups.size() + 1);
  for (const std::vector<Item>& group : groups) {
    items_.insert(items_.end(), group.begin(), group.end());
    offsets_.push_back(static_cast<std::int64_t>(items_.size()));
  }
}

Partition Partition::with_sorted_items() const {
  Partition sorted = *this;
  const std::vector<std::int32_t> groups = groups_of_items(*this);
  if (groups.empty()) {
    for (std::size_t g = 0; g + 1 < offsets_.size(); ++g)
      std::sort(sorted.items_.begin() + offsets_[g], sorted.items_.begin() + offsets_[g + 1]);
    return sorted;
  }
  std::vector<std::int64_t> next = offsets_;
  for (std::size_t item = 0; item < groups.size(); ++item) {
    std::int64_t& place = next[static_cast<std::size_t>(groups[item])];
    sorted.items_[static_cast<std::size_t>(place++)] = static_cast<Item>(item);
  }
  return sorted;
}

std::vector<std::vector<Item>> Partition::to_vectors() const {
  std::vector<std::vector<Item>> groups;
  groups.reserve(offsets_.size() - 1);
  for (std::int64_t g = 0; g < size(); ++g) groups.emplace_back((*this)[g].begin(), (*this)[g].end());
  return groups;
}

std::vector<Cost> group_sums(const Partition& partition, std::span<const Cost> costs) {
  std::vector<Cost> sums(static_cast<std::size_t>(partition.size()));
  for (std::int64_t g = 0; g < partition.size(); ++g) {
    for (const Item item : partition[g])
      sums[static_cast<std::size_t>(g)] += costs[static_cast<std::size_t>(item)];
  }
  return sums;
}

}  // namespace evenkeel
