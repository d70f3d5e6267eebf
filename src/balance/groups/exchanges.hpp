#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "balance/partition/item_exchange.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Balances the costs of groups by exchanges: moves an item from the costliest group to a cheaper one, swaps
/// two items, or exchanges up to three items for up to three. Every exchange obeys the rules and lowers the
/// larger total of its two groups, so the largest total never grows. Deterministic.
class GroupExchanges {
 public:
  /// Precondition: `start` is within the rules' limits. The arguments must outlive this object.
  GroupExchanges(const Partition& start, std::span<const Cost> costs, const ExchangeRules& rules);

  /// Moves and swaps items until no group is above `goal` or no exchange helps. Tries the cheapest groups
  /// first. The work is bounded by a multiple of n. Returns whether anything was exchanged.
  bool even_out(Cost goal);
  /// Acts like even_out(), then also exchanges up to three items for up to three others. The additional work
  /// is bounded by 1024 n sets of items, at most 2^20.
  bool even_out_by_sets(Cost goal);

  /// Returns the largest total of a group.
  [[nodiscard]] Cost largest() const { return by_cost_.empty() ? 0 : by_cost_.rbegin()->first; }

  /// Returns the groups in their order. Groups that took part in an exchange list their items in ascending
  /// order of (cost, item); the others are unchanged.
  [[nodiscard]] Partition result() const;

 private:
  struct Group : ItemGroup {  ///< its items are listed only after list_items()
    bool is_open = false;
    std::vector<ItemSubset> sets;  ///< its small_sets(); empty until they are needed
  };

  /// Lists the group's items on first use. If the start is good, most groups never need them.
  void list_items(std::size_t g);
  [[nodiscard]] std::span<const ItemSubset> sets_of(std::size_t g, std::int64_t& budget);
  /// Applies the exchange that `find` returns for the costliest group and the first possible cheaper group.
  template <typename Find>
  bool improve_costliest(const Find& find, std::int64_t& budget);
  void apply(std::size_t heavy, std::size_t light, const Exchange& exchange);

  const Partition& start_;
  std::span<const Cost> costs_;
  ExchangeRules rules_;
  std::vector<Group> groups_;
  std::set<std::pair<Cost, std::size_t>> by_cost_;  ///< totals of all groups, with their numbers
};

}  // namespace evenkeel
