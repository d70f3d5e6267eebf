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

/// Groups made more even on costs, exchange by exchange: an item moves from the costliest group to a cheaper
/// one, or two are swapped. Every step keeps the rules and makes the larger of its two groups smaller, so
/// that the largest sum never grows. Deterministic.
class GroupExchanges {
 public:
  /// Precondition: `start` keeps the rules' limits. All that is passed must outlive this object.
  GroupExchanges(const Partition& start, std::span<const Cost> costs, const ExchangeRules& rules);

  /// Exchanges until no group is above `goal` or none is found; the cheapest groups are tried first. The work
  /// is bounded by a multiple of n. Returns whether anything was exchanged.
  bool even_out(Cost goal);

  /// Groups in their places. Those looked at list their items by rising (cost, item); the others are as they
  /// were.
  [[nodiscard]] Partition result() const;

 private:
  struct Group : ItemGroup {  ///< its items are listed once it is open
    bool is_open = false;
  };

  /// Lists the group's items: most groups of a good start never need that.
  void open(std::size_t g);
  bool improve_costliest(std::int64_t& budget);
  void apply(std::size_t heavy, std::size_t light, const Exchange& exchange);

  const Partition& start_;
  std::span<const Cost> costs_;
  ExchangeRules rules_;
  std::vector<Group> groups_;
  std::set<std::pair<Cost, std::size_t>> by_cost_;  ///< every group
};

}  // namespace evenkeel
