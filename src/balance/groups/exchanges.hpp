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
/// larger total of its two groups, so the largest total never increases. Deterministic.
class GroupExchanges {
 public:
  /// Precondition: `start` is within the rules' limits. The arguments must outlive this object.
  GroupExchanges(const Partition& start, std::span<const Cost> costs, const ExchangeRules& rules);

  /// Moves and swaps items until the costliest group costs at most `goal`, no exchange helps, or O(n) items
  /// have been examined. Tries the cheapest groups first. Returns whether any items were exchanged.
  bool even_out(Cost goal);
  /// Calls even_out(), then also exchanges up to three items for up to three others, until 1024 n sets of
  /// items, but at most 2^20, have been examined. Returns whether any items were exchanged.
  bool even_out_by_sets(Cost goal);

  /// Returns the largest total cost of a group, including the cost of its bins.
  [[nodiscard]] Cost largest_cost() const { return by_cost_.empty() ? 0 : by_cost_.rbegin()->first; }

  /// Returns the groups in the order of `start`. Groups that were examined for exchanges list their items in
  /// ascending order of (cost, item); the other groups are unchanged.
  [[nodiscard]] Partition result() const;

 private:
  struct Group : ItemGroup {  ///< `items` is empty until list_items() is called for the group
    bool has_listed_items = false;
    std::vector<ItemSubset> sets;  ///< result of small_sets() for the group; empty until it is needed
  };

  /// Fills `items` of group g on the first call. If `start` is well balanced, most groups never need the
  /// list.
  void list_items(std::size_t g);
  [[nodiscard]] std::span<const ItemSubset> sets_of(std::size_t g, std::int64_t& budget);
  /// Applies the first exchange that `find` returns for the costliest group and a cheaper group, cheapest
  /// groups first. Returns whether an exchange was applied.
  template <typename Find>
  bool improve_costliest(const Find& find, std::int64_t& budget);
  void apply(std::size_t heavy, std::size_t light, const Exchange& exchange);

  const Partition& start_;
  std::span<const Cost> costs_;
  ExchangeRules rules_;
  std::vector<Group> groups_;
  std::set<std::pair<Cost, std::size_t>> by_cost_;  ///< (total cost, index) of each group
};

}  // namespace evenkeel
