#include "balance/groups/group_balance.hpp"

#include <string>
#include <unordered_map>
#include <vector>

#include "balance/checks.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

namespace {

/// The items of each key, keys in the order they first appear.
std::vector<std::vector<Item>> items_by_key(std::span<const std::uint64_t> keys) {
  std::vector<std::vector<Item>> groups;
  std::unordered_map<std::uint64_t, std::size_t> group_of;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto [entry, is_new] = group_of.try_emplace(keys[i], groups.size());
    if (is_new) groups.emplace_back();
    groups[entry->second].push_back(static_cast<Item>(i));
  }
  return groups;
}

}  // namespace

Partition balance_whole_groups(std::span<const Cost> costs, std::span<const std::uint64_t> keys,
                               std::int64_t k, GroupSize groups_per_part) {
  if (keys.size() != costs.size()) {
    throw InputError("keys", std::to_string(keys.size()) + " keys for " + std::to_string(costs.size()) +
                                 " costs; there must be as many");
  }
  balance_checks::checked_sum(costs, "costs");
  const Partition groups{items_by_key(keys)};
  const Partition of_groups = karmarkar_karp(group_sums(groups, costs), k, groups_per_part);

  std::vector<std::vector<Item>> parts(static_cast<std::size_t>(k));
  for (std::int64_t part = 0; part < k; ++part) {
    std::vector<Item>& samples = parts[static_cast<std::size_t>(part)];
    for (const Item group : of_groups[part])
      samples.insert(samples.end(), groups[group].begin(), groups[group].end());
  }
  return Partition{parts}.with_sorted_items();
}

}  // namespace evenkeel
